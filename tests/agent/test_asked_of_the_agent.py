"""What is asked of the agent, sentence by sentence, and the tests that show it.

Each names its tests by file (below ``tests/``) and function. What others' code and a player by hand showed is beside: modules
played by hand in ``hand_played.md``, exports held against others' code by ``exports/check_*.py``, random kills by
``python -m tests.agent.killed``, observations before and after sizing by ``python -m tests.bench.observations``.
"""

from __future__ import annotations

import pytest

from tests.shown import assert_shown

CONTEXT = {
    "a budget of the context, or the model's own where it is smaller, counted": (
        "agent/context/test_compaction.py::test_two_hundred_turns_stay_in_the_budget_and_keep_what_must_be_kept_over_a_restart",
        "agent/test_state.py::test_length_is_what_the_provider_counted_and_an_estimate_of_what_came_since",
        "agent/test_dialects.py::test_a_server_that_serves_a_length_says_how_long_a_conversation_may_be",
        "agent/test_loop.py::test_a_full_context_ends_the_run_before_it_is_sent",
    ),
    "compiler errors, verdicts and digests under a screen, the whole by reference": (
        "agent/test_verdict_text.py::test_the_worst_verdict_stays_under_sixty_lines_and_its_lines_short",
        "agent/test_verdict_text.py::test_one_mistake_at_many_lines_is_told_once",
        "agent/tools/test_check.py::test_a_verdict_too_long_for_a_model_is_told_in_part_and_kept_whole",
        "sandbox/looking/test_nsight.py::test_a_digest_is_a_screen_that_ends_in_the_limiter",
        "agent/tools/test_base.py::test_a_long_answer_keeps_whole_lines_of_both_ends_and_says_what_is_missing",
        "agent/test_loop.py::test_the_whole_of_a_clipped_output_is_kept_as_a_blob",
        "agent/context/test_compaction.py::test_what_is_set_aside_can_be_recalled",
    ),
    "compaction keeps skill, task, best attempt, open question and the developer's words": (
        "agent/context/test_compaction.py::test_two_hundred_turns_stay_in_the_budget_and_keep_what_must_be_kept_over_a_restart",
        "agent/context/test_compaction.py::test_what_a_provider_calls_too_long_is_shortened_once_and_asked_again",
    ),
    "prompt caching where the provider has it": (
        "agent/test_dialects.py::test_what_anthropic_may_cache_is_marked_on_the_wire_and_never_in_the_conversation",
        "agent/test_dialects.py::test_anthropic_gets_signed_thinking_back_and_what_is_cached_is_counted_and_priced",
        "agent/test_dialects.py::test_the_same_model_at_amazon_gets_the_same_in_its_own_form",
        "agent/test_dialects.py::test_what_is_asked_of_openai_itself_holds_nothing_for_learning",
    ),
    "the prompt of every turn made again from the trajectory, byte by byte": (
        "agent/context/test_compaction.py::test_two_hundred_turns_stay_in_the_budget_and_keep_what_must_be_kept_over_a_restart",
        "agent/exports/test_exports.py::test_every_export_of_any_session_holds_all_of_it",
        "agent/context/test_compaction.py::test_a_prompt_that_cannot_be_proven_is_not_shown",
        "agent/test_state.py::test_the_hash_of_a_request_depends_on_messages_and_tools_only",
    ),
}
ECONOMY = {
    "tokens, money, time and turns metered and budgeted": (
        "agent/test_loop.py::test_a_limit_of_tokens_or_money_ends_the_run_before_the_next_question",
        "agent/test_loop.py::test_the_turn_limit_ends_the_run",
        "agent/test_loop.py::test_the_end_of_the_time_ends_a_call_that_goes_on",
        "agent/test_loop.py::test_the_model_is_told_once_at_each_level_that_the_budget_runs_out",
        "agent/test_budget.py::test_each_run_is_told_against_its_own_limits_and_all_of_them_together",
        "agent/test_budget.py::test_tokens_that_no_provider_counted_are_counted_here_and_that_is_said",
        "agent/test_headless.py::test_a_limit_of_money_without_a_price_is_refused_before_anything_is_asked",
    ),
    "several tool calls at once": (
        "agent/test_loop.py::test_calls_run_at_once_and_their_answers_come_in_the_order_of_the_calls",
        "agent/test_loop.py::test_parallel_reads_and_a_write_do_what_they_say_and_every_request_is_the_fold",
        "agent/test_litellm_model.py::test_parallel_calls_that_stream_interleaved_are_put_together_by_index",
    ),
    "builds and verdicts in the background while the model thinks": (
        "agent/test_ahead.py::test_a_kernel_is_built_when_its_call_is_whole_and_with_what_was_written_before_it",
        "agent/test_end_to_end.py::test_every_kernel_was_built_before_its_check_was_asked_for",
        "agent/test_verdicts_ahead.py::test_a_check_takes_what_was_begun_while_the_model_thought_through_a_kill_and_an_edit",
        "agent/test_budget.py::test_what_was_judged_before_it_was_asked_for_is_told_with_what_it_saved_and_what_was_in_vain",
    ),
    "retries with back-off and Retry-After": (
        "agent/test_litellm_model.py::test_a_busy_server_is_asked_again_after_the_wait_it_names",
        "agent/test_litellm_model.py::test_a_retry_after_given_as_a_date_is_understood",
        "agent/test_litellm_model.py::test_a_server_that_stays_down_is_given_up_after_some_tries",
        "agent/test_litellm_model.py::test_a_wait_of_hours_is_a_refusal",
        "agent/test_provider_failures.py::test_every_provider_can_say_how_long_to_wait",
        "agent/test_loop.py::test_retries_are_events_and_the_answer_counts_once",
    ),
    "provider errors told as they are": (
        "agent/test_provider_failures.py::test_each_failure_is_told_in_the_providers_words",
        "agent/test_provider_failures.py::test_an_answer_that_breaks_off_is_no_answer",
        "agent/test_provider_failures.py::test_a_page_in_place_of_an_answer_is_no_answer",
        "agent/test_provider_failures.py::test_a_provider_that_falls_silent_is_given_up",
    ),
    "a reason for every stop": (
        "agent/test_loop.py::test_what_the_provider_refuses_ends_the_run_with_its_reason",
        "agent/test_loop.py::test_a_silent_model_is_nudged_twice_and_then_given_up",
        "agent/test_loop.py::test_a_full_context_ends_the_run_before_it_is_sent",
        "agent/test_engine.py::test_interrupting_an_answer_ends_the_run_and_the_next_run_goes_on",
        "agent/test_engine.py::test_a_task_that_raises_ends_the_run_as_unusable",
        "agent/test_engine.py::test_a_full_disk_ends_the_run_with_its_reason_and_the_session_goes_on_with_room",
        "agent/test_replay.py::test_the_run_ends_when_todays_results_no_longer_fit",
        "agent/test_headless.py::test_an_engine_that_is_killed_is_a_fault_of_ours_and_the_session_can_go_on",
        "agent/test_running.py::test_a_fault_of_ours_ends_the_run_as_that_and_the_next_one_goes_on",
        "app/test_fold.py::test_each_bad_end_is_a_problem_with_a_next_step",
    ),
    "the best attempt kept apart from the last, and measured again": (
        "agent/test_headless.py::test_the_developer_is_told_when_the_workspace_is_not_the_best_attempt",
        "agent/test_state.py::test_the_best_attempt_goes_by_reward_then_by_ratio_and_only_if_it_is_correct",
        "agent/test_measured_again.py::test_the_best_is_measured_again_until_one_stays_the_best",
        "agent/test_end_to_end.py::test_the_best_attempt_is_measured_again_in_full_before_it_is_called_the_best",
    ),
}
CONTRAST = {
    "earlier variants with measured scores, from different buckets": (
        "agent/test_contrast.py::test_a_new_best_is_compared_with_one_of_a_slower_bucket_the_likelier_the_faster",
        "agent/test_contrast.py::test_within_a_bucket_each_is_as_likely",
        "agent/test_contrast.py::test_a_new_one_that_is_slower_is_compared_with_a_faster_one",
    ),
    "the request to analyse why before the next attempt": (
        "agent/test_contrast.py::test_the_text_has_scores_and_what_changes",
        "agent/test_loop.py::test_two_variants_are_compared_once_before_the_next_attempt",
    ),
    "on by default past the second attempt, off by a setting": (
        "agent/test_headless.py::test_variants_are_compared_by_default_and_what_came_of_it_is_told",
        "agent/test_contrast.py::test_where_there_is_nothing_to_compare_nothing_is_said",
    ),
    "its effect visible in the trajectory": (
        "agent/test_contrast.py::test_what_came_of_a_comparison_is_whether_the_next_code_was_the_best_so_far",
        "agent/test_headless.py::test_variants_are_compared_by_default_and_what_came_of_it_is_told",
    ),
}
SEARCH = {
    "side by side from one base, with different ideas and models, the best carried forward": (
        "agent/search/test_search.py::test_what_one_agent_had_judged_another_is_told_at_once",
        "agent/search/test_search.py::test_agents_differ_the_best_is_carried_forward_and_cheats_and_failures_are_not",
    ),
    "the judge as referee, the best measured once more": (
        "agent/search/test_search.py::test_agents_differ_the_best_is_carried_forward_and_cheats_and_failures_are_not",
        "agent/search/test_search.py::test_a_time_that_one_agent_was_given_is_anothers_for_the_same_code",
    ),
    "equal sources recognised after normalising": (
        "agent/search/test_search.py::test_what_one_agent_had_judged_another_is_told_at_once",
        "agent/test_shared_verdicts.py::test_the_same_code_laid_out_anew_has_the_settled_verdict_of_another_session",
        "agent/test_shared_verdicts.py::test_what_one_session_has_judged_the_others_wait_for",
    ),
    "budget shared": (
        "agent/search/test_sharing.py::test_what_a_round_leaves_over_is_there_for_the_next",
        "agent/search/test_sharing.py::test_no_limit_stays_none_and_one_that_is_used_up_never_becomes_none",
        "agent/search/test_sharing.py::test_fewer_turns_than_sessions_are_refused",
        "cli/test_search.py::test_a_search_that_was_stopped_goes_on_in_the_sessions_it_had",
    ),
    "from the IDE": (
        "app/test_search.py::test_a_search_is_begun_from_a_session_once_the_form_is_right",
        "app/test_search.py::test_agents_are_shown_side_by_side_and_the_best_is_offered_as_a_proposal",
        "app/test_search.py::test_a_search_that_was_stopped_goes_on",
        "app/test_search.py::test_the_real_coordinator_says_why_no_agent_could_work",
    ),
}
CONTROL = {
    "read-only, ask, auto within the sandbox": (
        "agent/permissions/test_rules.py::test_what_each_mode_does",
        "app/test_permission.py::test_shift_tab_goes_through_the_modes_and_the_last_one_is_shown",
        "agent/permissions/test_asking.py::test_without_a_screen_what_would_be_asked_is_denied_and_said",
    ),
    "path rules": (
        "agent/permissions/test_rules.py::test_write_stands_for_every_tool_that_changes_a_file",
        "agent/permissions/test_asking.py::test_a_rule_denies_in_every_mode_and_one_that_asks_offers_nothing_lasting",
        "agent/tools/test_protected.py::test_no_command_changes_what_a_rule_denies",
        "agent/test_settings.py::test_a_project_can_forbid_more_and_allow_nothing",
    ),
    "approvals that state their scope": (
        "agent/permissions/test_asking.py::test_the_question_says_what_and_why_and_each_answer_what_it_allows",
        "agent/permissions/test_rules.py::test_the_rule_that_is_kept_for_a_command_allows_exactly_that_command",
        "agent/permissions/test_rules.py::test_what_is_allowed_for_good_is_kept_by_project_outside_of_it",
        "app/test_snapshots.py::test_what_the_agent_asks",
    ),
    "protected files no tool can touch": (
        "agent/tools/test_protected.py::test_no_command_changes_the_reference_or_the_history",
        "agent/tools/test_protected.py::test_no_command_changes_the_session_the_project_or_the_judge",
        "agent/tools/test_protected.py::test_no_file_tool_reaches_them_by_any_name_or_link",
    ),
    "text from the project treated as data": (
        "agent/test_framing.py::test_no_tools_answer_holds_a_line_that_begins_as_the_developers_words_do",
        "agent/test_framing.py::test_a_source_cannot_close_the_fence_it_stands_in",
        "agent/test_settings.py::test_a_project_cannot_send_keys_or_files_elsewhere_nor_make_answers_dearer",
        "agent/test_skills.py::test_a_projects_skill_is_loaded_only_as_it_was_when_it_was_trusted",
    ),
    "secrets redacted where output enters": (
        "agent/test_loop.py::test_a_secret_never_reaches_the_conversation_nor_the_disk",
        "agent/test_redact.py::test_a_known_value_is_replaced_however_it_is_written",
        "agent/test_redact.py::test_tokens_in_their_places_and_split_by_colours_and_lines_are_replaced",
        "agent/tools/test_bash.py::test_the_shell_sees_the_workspace_and_not_the_keys",
        "agent/mcp/test_server.py::test_a_client_opens_tasks_has_candidates_judged_and_cancels",
    ),
    "steering and rejections told to the model as such": (
        "agent/test_framing.py::test_what_the_developer_says_and_the_skill_they_name_reach_the_agent_as_their_words",
        "agent/test_loop.py::test_steering_is_told_before_the_next_turn_and_keeps_a_finished_run_going",
        "agent/test_state.py::test_what_the_developer_said_waits_until_it_is_told_and_survives_a_restart",
        "app/test_ide.py::test_hunks_are_accepted_and_rejected_with_a_reason",
    ),
}
SKILLS = {
    "the open format with progressive disclosure": (
        "agent/test_prompt.py::test_the_main_skill_is_whole_and_the_others_are_only_named",
        "agent/test_skills.py::test_the_tool_reads_the_body_and_its_files_and_nothing_else",
    ),
    "the developer's and the project's found, validated, trusted explicitly": (
        "agent/test_skills.py::test_the_projects_wins_over_the_developers_and_both_over_ours_and_what_is_shadowed_is_told",
        "agent/test_skills.py::test_a_projects_skill_is_loaded_only_as_it_was_when_it_was_trusted",
        "agent/test_skills.py::test_the_command_lists_validates_and_trusts",
        "app/test_ide.py::test_a_projects_skills_are_trusted_by_two_keys",
    ),
    "skills-ref validates ours": (
        "skills/test_examples.py::test_the_reference_validator_and_ours_agree_on_every_skill",
    ),
}
LEARNING = {
    "token ids and log-probabilities where the server gives them": (
        "agent/test_dialects.py::test_vllm_gives_tokens_that_a_trainer_can_use_and_says_which_weights_it_has",
        "agent/test_dialects.py::test_the_tokens_of_a_prompt_are_stored_once_and_put_together_again",
        "agent/test_dialects.py::test_tokens_that_do_not_fit_what_was_counted_are_noted_and_not_kept",
    ),
    "sampling, weights, tokenizer and template": (
        "agent/test_dialects.py::test_vllm_gives_tokens_that_a_trainer_can_use_and_says_which_weights_it_has",
        "agent/test_dialects.py::test_a_thinking_claude_gets_no_temperature",
    ),
    "finish reasons and parse errors": (
        "agent/test_dialects.py::test_why_an_answer_ended_is_told_in_one_vocabulary",
        "agent/test_tool_calls.py::test_what_could_not_be_understood_is_kept_as_it_was_written",
    ),
}
EXPORTS = {
    "ATIF, by its published rules": (
        "agent/exports/test_exports.py::test_atif_says_what_was_copied_and_keeps_verdicts_and_decisions_where_they_happened",
        "agent/exports/test_exports.py::test_the_bundled_recordings_export",
    ),
    "OpenAI messages with tools": (
        "agent/exports/test_exports.py::test_messages_are_as_they_were_sent_and_arguments_objects_where_that_is_asked_for",
    ),
    "preference pairs of the same visible context": (
        "agent/exports/test_exports.py::test_siblings_are_a_pair_by_decision_and_by_time",
        "agent/exports/test_exports.py::test_no_pair_where_the_same_answer_was_told_other_things",
        "agent/exports/test_exports.py::test_what_was_taken_back_is_not_accepted_any_more",
    ),
    "verl rows": (
        "agent/exports/test_exports.py::test_token_rows_split_where_tokens_part_and_end_with_the_model",
        "agent/exports/test_exports.py::test_a_task_is_exported_once",
    ),
}
DOORS = {
    "check, profile, sweep, ncu digest, hotspots; skills as resources": (
        "agent/mcp/test_every_tool.py::test_every_tool_is_used_once",
        "agent/mcp/test_server.py::test_a_client_opens_tasks_has_candidates_judged_and_cancels",
        "gpu/test_mcp.py::test_every_tool_is_used_once",
    ),
    "warpsmith mcp, driven by the reference client": (
        "agent/mcp/test_server.py::test_a_client_opens_tasks_has_candidates_judged_and_cancels",
        "agent/mcp/test_server.py::test_nothing_is_left_when_the_client_goes_while_a_judge_opens",
    ),
    "optimize, check, load": (
        "agent/test_api.py::test_optimize_runs_a_session_and_says_why_nothing_came_of_it",
        "agent/test_api.py::test_check_judges_a_candidate_for_a_module_and_for_a_target",
        "agent/test_api.py::test_a_form_takes_the_place_of_a_module_with_its_state_hooks_and_mode",
        "agent/test_api.py::test_what_cannot_be_a_task_is_said_before_a_model_is_asked",
        "gpu/test_api.py::test_a_module_on_the_gpu_comes_back_faster",
    ),
}
SEEN = {
    "killed at random moments, with nothing lost": (
        "agent/test_engine.py::test_killed_again_and_again_and_in_the_middle_of_a_line_it_tells_everything_once",
        "agent/test_end_to_end.py::test_a_kill_while_the_judge_works_loses_nothing_that_was_judged",
        "agent/test_store.py::test_cutting_the_file_anywhere_loses_at_most_the_last_line",
    ),
    "200 turns inside the budget": (
        "agent/context/test_compaction.py::test_two_hundred_turns_stay_in_the_budget_and_keep_what_must_be_kept_over_a_restart",
    ),
    "every dialect: Anthropic, Gemini, Ollama, OpenAI, vLLM": (
        "agent/test_dialects.py::test_hidden_thinking_goes_back_as_it_came",
        "agent/test_dialects.py::test_gemini_gets_its_thought_signatures_back_and_counts_thoughts_as_output",
        "agent/test_dialects.py::test_calls_without_ids_from_ollama_stay_apart_and_it_is_told_how_much_to_read",
        "agent/test_dialects.py::test_the_newest_models_of_openai_get_their_sealed_reasoning_back",
        "agent/test_dialects.py::test_what_other_servers_make_of_the_protocol_is_understood",
        "agent/test_dialects.py::test_a_conversation_goes_on_with_another_provider",
    ),
}
SENTENCES = {
    **{f"context: {sentence}": tests for sentence, tests in CONTEXT.items()},
    **{f"economy: {sentence}": tests for sentence, tests in ECONOMY.items()},
    **{f"contrast: {sentence}": tests for sentence, tests in CONTRAST.items()},
    **{f"search: {sentence}": tests for sentence, tests in SEARCH.items()},
    **{f"control: {sentence}": tests for sentence, tests in CONTROL.items()},
    **{f"skills: {sentence}": tests for sentence, tests in SKILLS.items()},
    **{f"learning: {sentence}": tests for sentence, tests in LEARNING.items()},
    **{f"exports: {sentence}": tests for sentence, tests in EXPORTS.items()},
    **{f"doors: {sentence}": tests for sentence, tests in DOORS.items()},
    **{f"seen: {sentence}": tests for sentence, tests in SEEN.items()},
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_it_is_shown(sentence: str) -> None:
    assert_shown(SENTENCES[sentence])
