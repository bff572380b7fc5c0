"""What is asked of the trainer, sentence by sentence, and the tests and recorded runs that show it.

Tests are named by file (below ``tests/``) and function; what only a GPU could show, by the document that a run of it left and
the words in it.
"""

from __future__ import annotations

import pytest

from tests.gpu.learning.results import Results
from tests.shown import TESTS, assert_shown

INGEST = {
    "token ids exactly as served, and which of them the policy wrote": (
        "trainer/data/test_episodes.py::test_tokens_are_those_that_were_served_and_actions_what_the_policy_wrote",
        "trainer/data/test_episodes.py::test_what_a_policy_was_told_is_never_an_action",
        "trainer/data/test_episodes.py::test_every_prompt_of_an_episode_is_the_one_that_was_served",
        "trainer/rollout/test_conversations.py::test_a_prompt_goes_on_from_the_ids_of_prompt_and_answer",
    ),
    "behaviour log-probabilities and who wrote it": (
        "trainer/data/test_episodes.py::test_log_probabilities_that_are_not_finite_are_none",
        "trainer/data/test_episodes.py::test_who_answered_can_be_told_where_the_server_does_not",
        "trainer/rollout/test_server.py::test_our_client_gets_ids_log_probabilities_and_who_answered",
    ),
    "the reward, with components, made again from stored measurements": (
        "trainer/data/test_rewards.py::test_a_reward_is_made_again_from_what_was_measured",
        "trainer/data/test_rewards.py::test_the_rewards_of_the_bundled_recordings_follow_from_their_measurements",
        "trainer/data/test_rewards.py::test_the_best_attempt_counts_and_not_the_last",
    ),
    "eligibility for each stage, with the reason": (
        "trainer/data/test_episodes.py::test_ppo_learns_from_what_its_policy_sampled",
        "trainer/data/test_episodes.py::test_ppo_learns_nothing_from_models_that_are_not_in_training",
        "trainer/data/test_episodes.py::test_failures_teach_the_critic_and_not_the_policy_by_imitation",
        "trainer/data/test_episodes.py::test_without_a_reward_no_stage_learns_anything",
        "trainer/data/test_rewards.py::test_a_quick_verdict_is_relied_on_from_three_placements_on",
    ),
    "a landed attempt adds half a point, a rejected one takes it, bounded and switchable": (
        "trainer/data/test_rewards.py::test_the_developers_decision_counts_half_a_point",
        "trainer/data/test_rewards.py::test_a_reward_stays_within_what_the_judge_can_give",
        "trainer/data/test_ingest.py::test_decisions_and_benchmarks_can_be_left_out",
    ),
    "pairs go to the export of preferences": (
        "agent/exports/test_exports.py::test_siblings_are_a_pair_by_decision_and_by_time",
    ),
    "benchmark tasks are kept out": (
        "trainer/data/test_exclusion.py::test_a_benchmarks_file_is_known_without_comments_and_layout",
        "trainer/data/test_exclusion.py::test_a_task_that_lies_where_kernelbench_keeps_its_own_is_known",
        "trainer/data/test_exclusion.py::test_no_stage_learns_from_a_benchmark",
    ),
    "a derived, versioned set": (
        "trainer/data/test_dataset.py::test_a_set_is_read_as_it_was_written",
        "trainer/data/test_dataset.py::test_a_set_that_is_torn_or_foreign_is_refused_with_what_to_do",
        "trainer/run/test_options.py::test_a_set_made_anew_at_the_same_place_is_noticed",
    ),
}
STAGES = {
    "one recipe a file, with warpsmith train in front": (
        "trainer/test_main.py::test_every_stage_has_options_and_a_docstring_that_helps",
        "trainer/data/test_ingest.py::test_a_request_that_is_wrong_is_told_and_nothing_is_written",
    ),
    "full weights, or adapters": (
        "trainer/policy/test_model.py::test_a_new_adapter_changes_nothing_and_the_reference_is_the_base",
        "trainer/policy/test_model.py::test_what_is_saved_is_what_is_loaded",
        "trainer/test_ppo.py::test_adapters_of_policy_and_critic_are_trained_over_one_base",
    ),
    "warmup: single-turn PPO on the judge's reward": (
        "trainer/test_warmup.py::test_a_policy_learns_to_write_what_earns",
        "trainer/test_warmup.py::test_the_same_command_goes_on_and_answers_can_be_kept_as_a_set",
    ),
    "rft: what earned something, without loops and broken calls": (
        "trainer/test_rft.py::test_only_what_earned_something_is_imitated",
        "trainer/data/test_episodes.py::test_bad_habits_are_not_imitated_and_are_learned_from_all_the_same",
        "trainer/data/test_episodes.py::test_the_same_code_judged_again_and_again_is_a_loop",
    ),
    "rft: loss on the model's tokens only": (
        "trainer/test_rft.py::test_the_gradient_is_that_of_the_mean_log_likelihood_of_the_actions",
    ),
    "value: failures too, held-out explained variance, the end at its plateau": (
        "trainer/data/test_episodes.py::test_failures_teach_the_critic_and_not_the_policy_by_imitation",
        "trainer/test_value.py::test_what_is_held_out_has_the_rewards_of_the_rest",
        "trainer/test_value.py::test_a_plateau_is_where_nothing_gets_better_any_more",
        "trainer/test_value.py::test_a_run_learns_what_can_be_told_from_the_prompt_and_ends_where_it_was_best",
    ),
    "ppo: rollouts are sessions of our own loop and judge with the policy in training": (
        "trainer/test_cycle.py::test_sessions_are_right_more_often_after_a_few_updates",
        "trainer/rollout/test_generation.py::test_answers_of_a_changing_batch_have_the_log_probabilities_of_a_plain_pass",
        "trainer/rollout/test_generation.py::test_new_weights_forget_what_was_read",
    ),
    "ppo: or another server that returns ids and log-probabilities": (
        "trainer/test_cycle.py::test_another_server_writes_with_the_weights_of_the_moment",
        "trainer/test_cycle.py::test_a_server_that_tells_nothing_of_its_weights_writes_with_those_of_the_moment",
    ),
    "ppo: saved trajectories, old log-probabilities recomputed, truncated importance": (
        "trainer/test_ppo.py::test_what_its_own_policy_wrote_is_kept_whole_and_what_another_wrote_is_left_out",
        "trainer/test_ppo.py::test_importance_weights_are_bounded_ratios_to_the_policy_that_wrote",
        "trainer/test_ppo.py::test_what_is_too_old_is_left_out_and_nothing_left_is_said",
    ),
    "contrast: earlier variants with scores in the prompt": (
        "trainer/test_contrast.py::test_two_answers_of_different_buckets_are_shown_the_slower_first",
        "trainer/test_contrast.py::test_faster_buckets_are_shown_more_often",
        "trainer/test_contrast.py::test_the_question_tells_the_answers_with_their_scores",
    ),
    "contrast: an advantage within the group, the reward smoothed and clipped": (
        "trainer/maths/test_group.py::test_each_group_is_centred_and_scaled_for_itself",
        "trainer/maths/test_group.py::test_speedups_are_normalised_by_all_that_were_seen_and_clipped",
        "trainer/test_contrast.py::test_a_run_fills_its_bank_and_goes_on_with_it",
    ),
    "cycle: one command, stopped and resumed at any point": (
        "trainer/test_cycle.py::test_killed_within_a_session_it_goes_on_there_and_every_trajectory_names_its_weights",
        "trainer/run/test_run.py::test_the_same_command_goes_on_and_ends_as_if_it_had_never_stopped",
    ),
    "cycle: weights have versions, and trajectories name those that made them": (
        "trainer/test_cycle.py::test_a_run_that_went_back_gets_another_id_and_no_other",
        "trainer/rollout/test_server.py::test_the_card_names_weights_tokenizer_and_context",
    ),
    "the result is at once a --model": (
        "trainer/rollout/test_server.py::test_a_whole_answer_and_a_stream_say_the_same",
        "trainer/rollout/test_server.py::test_our_client_gets_ids_log_probabilities_and_who_answered",
    ),
}
RUNS = {
    "two presets": (
        "trainer/run/test_presets.py::test_the_published_recipe",
        "trainer/run/test_presets.py::test_the_long_horizon_decouples_lambda_and_corrects_for_who_wrote_an_episode",
        "trainer/test_ppo.py::test_one_step_of_the_published_recipe_by_hand",
    ),
    "guards stop and roll back: entropy, explained variance, length, k3, numbers that are none": (
        "trainer/run/test_guards.py::test_a_jump_of_the_entropy_stops_and_trusts_the_weights_before_those_it_was_measured_on",
        "trainer/run/test_guards.py::test_a_critic_that_explains_nothing_for_long_stops",
        "trainer/run/test_guards.py::test_ever_more_episodes_that_run_into_a_limit_stop",
        "trainer/run/test_guards.py::test_a_step_too_far_stops_and_trusts_the_weights_before_it",
        "trainer/run/test_guards.py::test_what_is_no_number_stops",
        "trainer/run/test_run.py::test_a_guard_goes_back_to_where_the_weights_were_not_in_question",
        "trainer/run/test_run.py::test_a_gradient_that_is_no_number_changes_nothing",
    ),
    "a line of numbers a step, progress on the terminal, a plot": (
        "trainer/run/test_metrics.py::test_lines_come_back_as_they_were_written",
        "trainer/run/test_metrics.py::test_off_a_terminal_each_step_is_a_line",
        "trainer/test_ppo.py::test_what_counts_as_clipped_goes_by_the_advantages_that_were_learnt_from",
        "trainer/run/test_plot.py::test_an_svg_has_axes_for_what_the_runs_have_and_a_legend_for_several",
    ),
    "one process or several, the same numbers to rounding": (
        "trainer/run/test_processes.py::test_two_processes_equal_one_and_each_goes_on_where_the_other_stopped",
        "gpu/test_trainer_processes.py::test_two_gpus_equal_one_which_goes_on_from_their_checkpoint",
    ),
    "long trajectories: the head in chunks, layers computed again, packing that does not leak": (
        "trainer/policy/test_logprobs.py::test_no_more_logits_exist_at_a_time_than_a_chunk_holds",
        "trainer/policy/test_logprobs.py::test_chunks_change_neither_values_nor_gradients",
        "trainer/policy/test_model.py::test_layers_computed_again_give_the_gradients_of_layers_that_were_kept",
        "trainer/policy/test_packing.py::test_no_segment_hears_another_nor_hands_it_a_gradient",
        "gpu/test_trainer_policy.py::test_the_memory_of_attention_grows_with_the_length_and_not_with_its_square",
    ),
    "checkpoints atomic, sharded, resumable on another number of processes": (
        "trainer/run/test_checkpoint.py::test_a_checkpoint_comes_back_bit_by_bit",
        "trainer/run/test_checkpoint.py::test_what_cannot_be_finished_leaves_the_last_one_whole",
        "trainer/run/test_checkpoint.py::test_a_removal_that_is_cut_off_leaves_no_half_checkpoint_to_go_back_to",
        "trainer/run/test_processes.py::test_two_processes_equal_one_and_each_goes_on_where_the_other_stopped",
    ),
    "one GPU for policy and judge, in turns under the judge's lease": (
        "trainer/rollout/test_turns.py::test_the_policy_waits_for_a_judge_that_times",
        "trainer/rollout/test_turns.py::test_a_judge_gets_the_device_between_two_turns",
        "gpu/test_trainer_cycle.py::test_a_step_of_the_cycle_on_the_gpu_that_judges",
    ),
}
SEEN = {
    "verl's numbers for advantages, policy, value, divergence, whitening": (
        "trainer/maths/test_gae.py::test_verls_advantages_and_returns",
        "trainer/maths/test_losses.py::test_verls_clipped_policy_loss",
        "trainer/maths/test_losses.py::test_verls_value_loss",
        "trainer/maths/test_kl.py::test_verls_estimates_and_their_gradients",
        "trainer/maths/test_whitening.py::test_verls_mean_variance_and_whitened_values",
        "trainer/maths/test_importance.py::test_verls_truncated_weights",
    ),
    "gradients against finite differences": (
        "trainer/maths/test_losses.py::test_gradients_against_finite_differences",
        "trainer/policy/test_logprobs.py::test_the_gradient_of_the_policy_against_finite_differences",
    ),
    "how a batch is cut changes nothing": (
        "trainer/maths/test_aggregate.py::test_the_gradients_of_parts_add_up_to_that_of_the_whole",
        "trainer/policy/test_logprobs.py::test_the_gradient_does_not_depend_on_how_a_batch_is_cut_into_rows",
        "trainer/test_ppo.py::test_how_rows_are_cut_changes_nothing",
    ),
    "packed equals unpacked": ("trainer/policy/test_packing.py::test_packed_equals_unpacked",),
    "before an update the ratio is 1": (
        "trainer/policy/test_logprobs.py::test_the_ratio_at_update_zero_is_one",
        "trainer/test_ppo.py::test_before_a_step_the_ratio_is_one",
        "gpu/test_trainer_processes.py::test_before_a_step_the_ratio_is_one_in_bfloat16_too",
    ),
    "sessions earn more after a few updates, with a tiny model, our loop, tools and judge": (
        "trainer/test_cycle.py::test_sessions_are_right_more_often_after_a_few_updates",
        "trainer/test_cycle.py::test_sessions_earn_more_after_a_few_updates",
    ),
    "held-out tasks are of other operators, and verdicts are kept by content": (
        "trainer/tasks/test_rows.py::test_held_out_operators_are_never_asked_about_in_training",
        "trainer/tasks/test_judging.py::test_distinct_candidates_are_judged_once_ever",
        "trainer/tasks/test_memo.py::test_the_key_depends_on_task_candidate_and_how_it_is_judged_and_on_nothing_else",
    ),
    "the bundled recordings, with their decisions, go through ingest, rft and value": (
        "trainer/data/test_ingest.py::test_the_bundled_recordings_with_their_decisions_become_a_set",
        "trainer/test_recordings.py::test_a_bundled_recording_goes_through_ingest_rft_and_value",
    ),
    "a run that is killed ends with the same weights": (
        "trainer/test_killed.py::test_a_killed_run_ends_with_the_same_weights_as_an_undisturbed_one",
    ),
}
BAD_INPUT = {
    "a torn or foreign trajectory": (
        "trainer/data/test_episodes.py::test_a_torn_last_line_costs_nothing_and_a_torn_middle_is_told",
        "trainer/data/test_episodes.py::test_somebody_elses_events_are_told_and_hide_no_other_session",
    ),
    "a tokenizer that does not match": (
        "trainer/data/test_dataset.py::test_a_policy_with_another_tokenizer_is_refused",
        "trainer/run/test_run.py::test_a_set_for_another_tokenizer_is_refused",
    ),
    "nothing eligible": (
        "trainer/data/test_dataset.py::test_a_stage_that_nothing_may_enter_says_why",
        "trainer/test_ppo.py::test_nothing_eligible_is_said_with_the_reason",
        "trainer/test_rft.py::test_nothing_to_imitate_is_said",
    ),
    "a reward that is no number": (
        "trainer/data/test_rewards.py::test_what_is_no_number_never_becomes_a_reward",
        "trainer/test_ppo.py::test_an_episode_without_a_reward_is_refused_by_its_name",
    ),
    "a full disk": (
        "trainer/run/test_checkpoint.py::test_a_full_disk_is_named_and_harms_no_checkpoint",
        "trainer/data/test_dataset.py::test_a_full_disk_is_the_machines_fault_and_leaves_nothing",
    ),
    "a dead server": (
        "trainer/rollout/test_sessions.py::test_a_server_that_is_gone_is_told_and_the_sessions_go_on_once_it_is_back",
        "trainer/test_cycle.py::test_a_server_that_does_not_start_is_told",
    ),
    "memory used up": (
        "trainer/run/test_run.py::test_memory_used_up_says_what_to_change_and_harms_no_checkpoint",
        "trainer/rollout/test_generation.py::test_out_of_memory_is_told_and_fewer_are_written_at_once",
    ),
}
SENTENCES = {**INGEST, **STAGES, **RUNS, **SEEN, **BAD_INPUT}
RECORDED = {
    "three seeds of the whole recipe, and one each without a part of it": (
        "gpu/learning.md",
        ("seed 2", "without rejection fine-tuning", "without value pretraining", "raw speed-up as reward"),
    ),
    "beside them a random policy, the best constant answer, and the best of several of the start model": (
        "gpu/learning.md",
        ("a random policy", "the best constant answer", "the best of twelve answers of the start model"),
    ),
    "throughput beside a plain loop, the share of what the device can do, the memory of the longest trajectory": (
        "gpu/training.md",
        ("plain loop, tokens/s", "ours, of the data sheet's", "One trajectory of 131,072 tokens"),
    ),
}
LEARNING = TESTS / "gpu" / "learning"


@pytest.mark.parametrize("sentence", SENTENCES)
def test_it_is_shown(sentence: str) -> None:
    assert_shown(SENTENCES[sentence])


@pytest.mark.parametrize("sentence", RECORDED)
def test_a_run_of_it_is_recorded(sentence: str) -> None:
    document, words = RECORDED[sentence]
    told = " ".join((TESTS / document).read_text().split())
    assert [each for each in words if each not in told] == []


def test_the_reward_of_held_out_tasks_rises_in_every_recorded_run_as_the_page_tells_it() -> None:
    results, page = Results(LEARNING / "results.jsonl"), LEARNING.with_suffix(".md").read_text()
    assert len(results.done()) == 6
    for run in results.done():
        first, *_, last = results.of("evaluation", run)
        assert last["held_out_reward"] > first["held_out_reward"] + 1
        assert f"**{last['held_out_reward']:+.2f}** | {last['step']} | {last['wrong']:.0%}".replace("%", " %") in page
    for line in results.baselines().values():
        assert f"{line['held_out_reward']:+.2f}" in page
    assert (LEARNING / "curves.png").is_file()
