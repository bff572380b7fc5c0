import pytest

from sandbox.errors import UsageError
from trainer.run.presets import Recipe, adjusted, preset, with_lora


def test_the_published_recipe():
    recipe = preset("cuda-agent")
    assert (recipe.gamma, recipe.lam_actor, recipe.lam_critic) == (1.0, 0.95, 0.95)
    assert (recipe.clip_low, recipe.clip_high, recipe.dual_clip) == (0.2, 0.28, None)
    assert (recipe.actor_lr, recipe.critic_lr, recipe.batch) == (3e-6, 6e-6, 1024)
    assert (recipe.averaging, recipe.epochs, recipe.minibatches, recipe.importance) == ("episode", 1, 1, None)


def test_the_long_horizon_decouples_lambda_and_corrects_for_who_wrote_an_episode():
    recipe = preset("long-horizon")
    assert (recipe.lam_actor, recipe.lam_critic) == (None, 1.0)
    assert (recipe.critic_head, recipe.averaging, recipe.importance, recipe.reject_k3) == (
        "bounded",
        "token",
        2.0,
        0.01,
    )


def test_adapters_are_trained_at_ten_times_the_rates():
    recipe = with_lora(preset("cuda-agent"))
    assert (recipe.actor_lr, recipe.critic_lr) == pytest.approx((3e-5, 6e-5))


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("actor_lr=1e-5", "actor_lr", 1e-5),
        ("lam_actor=none", "lam_actor", None),
        ("lam_actor=0.9", "lam_actor", 0.9),
        ("version_gap=2", "version_gap", 2),
        ("whiten=true", "whiten", True),
        ("averaging=token", "averaging", "token"),
    ],
)
def test_a_setting_is_read_as_its_kind(setting, name, value):
    assert getattr(adjusted(Recipe(), [setting]), name) == value


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("actor_rl=1", "Did you mean actor_lr?"),
        ("nonsense=1", "It is one of: gamma"),
        ("averaging=median", "Give episode or token."),
        ("batch=1.5", "Give a whole number."),
        ("whiten=maybe", "Give true or false."),
        ("gamma=none", "Give a number."),
        ("name=mine", "It is one of: gamma"),
        ("batch=0", "Give 1 or more."),
        ("epochs=-1", "Give 1 or more."),
        ("alpha=0", "Give a number above 0."),
        ("gamma=1.5", "Give a number from 0 to 1."),
        ("lam_actor=nan", "Give a number from 0 to 1."),
        ("actor_lr=-1", "Give a number that is not below 0."),
        ("k3_limit=inf", "Give a number that is not below 0."),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(setting, told):
    with pytest.raises(UsageError) as caught:
        adjusted(Recipe(), [setting])
    assert told in str(caught.value)
    assert setting in str(caught.value)


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="cuda-agent, long-horizon"):
        preset("grpo")
