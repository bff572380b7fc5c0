"""Which source of a setting wins, and what is said about a bad one."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from agent.settings import Settings, load_settings
from sandbox.errors import UsageError


@pytest.fixture(autouse=True)
def user_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda name: str(folder))
    for field in Settings.__dataclass_fields__:
        monkeypatch.delenv(f"WARPSMITH_{field.upper()}", raising=False)
    return folder / "config.toml"


def test_each_source_beats_those_below_it(tmp_path: Path, user_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "project" / "src"
    below.mkdir(parents=True)
    user_config.write_text('model = "user"\ndevice = "cpu"\ncontrast = true\napi_base = "http://u"')
    project_file = below.parent / "warpsmith.toml"
    project_file.write_text('model = "project"\ndevice = "cuda"\ncontrast = false')
    monkeypatch.setenv("WARPSMITH_MODEL", "environment")
    monkeypatch.setenv("WARPSMITH_CONTRAST", "yes")
    found = load_settings({"model": "line", "device": None}, project=below)
    assert (found.model, found.contrast, found.device, found.api_base) == ("line", True, "cuda", "http://u")
    assert found.origins["model"] == "command line"
    assert found.origins["contrast"] == "environment"
    assert found.origins["device"] == str(project_file)
    assert found.origins["api_base"] == str(user_config)
    assert found.origins["python"] == "default"


def test_settings_survive_json() -> None:
    settings = Settings(model="m", home=Path("/h"), replay_delay=0.5)
    assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modell = 1", "Unknown setting 'modell'"),
        ('turn_limit = "many"', "must be a int"),
        ("turn_limit = 0", "must be at least 1"),
        ('api_base = "localhost:8000"', "http or https address"),
        ("temperature = -1", "must be at least 0"),
        ('top_p = "much"', "must be a float"),
        ('reasoning_effort = "some"', "one of none, minimal, low"),
        ('reward_tier = "slow"', "one of full, quick, correctness"),
        ("model = ", "does not parse"),
    ],
)
def test_a_bad_file_is_named(user_config: Path, text: str, words: str) -> None:
    user_config.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        load_settings({})
    assert caught.value.where == str(user_config)


def test_what_is_empty_of_sampling_is_left_to_the_provider(
    user_config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user_config.write_text('temperature = 0.7\ntop_p = 1\nseed = 3\nreasoning_effort = "high"')
    monkeypatch.setenv("WARPSMITH_TEMPERATURE", "")
    found = load_settings({}, project=tmp_path)
    assert (found.temperature, found.top_p, found.seed, found.max_output_tokens) == (None, 1.0, 3, None)
    assert Settings.from_json(found.to_json()) == found


@pytest.mark.parametrize("key", ["api_base", "home", "cache", "max_output_tokens", "reasoning_effort"])
def test_a_project_cannot_send_keys_or_files_elsewhere_nor_make_answers_dearer(tmp_path: Path, key: str) -> None:
    (tmp_path / "warpsmith.toml").write_text(f'{key} = "elsewhere"')
    with pytest.raises(UsageError, match=f"may not set '{key}'"):
        load_settings({}, project=tmp_path)


def test_a_project_can_forbid_more_and_allow_nothing(tmp_path: Path, user_config: Path) -> None:
    user_config.write_text('permission_mode = "ask"\nallow = ["Bash(make *)"]\ndeny = ["Bash(curl *)"]')
    (tmp_path / "warpsmith.toml").write_text('ask = ["Write"]\ndeny = ["Bash(git push *)"]')
    found = load_settings({}, project=tmp_path)
    assert (found.permission_mode, found.allow, found.ask) == ("ask", ("Bash(make *)",), ("Write",))
    assert found.deny == ("Bash(curl *)", "Bash(git push *)")
    assert Settings.from_json(found.to_json()) == found
    for line in ('permission_mode = "auto"', 'allow = ["Bash"]'):
        (tmp_path / "warpsmith.toml").write_text(line)
        with pytest.raises(UsageError, match="A project may not set"):
            load_settings({}, project=tmp_path)


@pytest.mark.parametrize("line", ['permission_mode = "yolo"', 'deny = ["Bash("]', "deny = 3", "deny = [3]"])
def test_modes_and_rules_are_checked_where_they_are_written(user_config: Path, line: str) -> None:
    user_config.write_text(line)
    with pytest.raises(UsageError) as caught:
        load_settings({})
    assert caught.value.where == str(user_config)
