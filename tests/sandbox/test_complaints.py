"""What people report of comparable tools when they build, measure and profile, and the tests that show our answer.

Each symptom names its tests by file (below ``tests/``) and function. A test that is renamed or goes, or one that only a GPU could
run where nothing else shows the answer, is found here.
"""

from __future__ import annotations

import pytest

from tests.shown import assert_shown

BUILDING = {
    "builds at once wait for each other for ever, or for the lock of one that was killed": (
        "sandbox/build/test_build.py::test_of_eight_builds_at_once_each_state_is_compiled_once",
        "sandbox/build/test_build.py::test_a_killed_build_leaves_nothing_that_the_next_waits_for",
        "sandbox/build/test_slots.py::test_what_a_killed_build_held_is_free_at_once",
    ),
    "a compile error with the word lock in it is taken for a busy cache, and nobody is told": (
        "sandbox/judge/test_build_faults.py::test_the_word_lock_in_a_compile_error_is_an_error_like_any_other",
    ),
    "compiling takes most of the time, and every edit compiles everything": (
        "sandbox/build/test_build.py::test_one_edited_file_of_three_recompiles_alone",
        "sandbox/build/test_halves.py::test_an_edit_of_a_body_needs_no_host_compiler_and_gives_the_same_library",
        "sandbox/judge/test_ahead.py::test_a_check_compiles_nothing_that_was_built_ahead",
    ),
    "the cache goes by the time of files": (
        "sandbox/build/test_build.py::test_a_file_that_was_only_touched_is_not_compiled_again",
        "sandbox/judge/test_symptoms.py::test_what_is_judged_is_the_state_of_the_files_now",
    ),
    "what is cached is damaged, or was pruned while it was wanted": (
        "sandbox/build/test_build.py::test_a_damaged_entry_is_built_again",
        "sandbox/build/test_store.py::test_an_object_that_is_gone_is_compiled_again",
        "sandbox/judge/test_build_faults.py::test_kernels_that_were_pruned_meanwhile_are_built_again",
    ),
    "every architecture there is gets compiled": (
        "sandbox/build/test_build.py::test_only_the_present_architecture_is_built",
        "sandbox/test_variables.py::test_an_extension_is_compiled_for_the_present_gpu_alone",
    ),
    "compilers side by side use up the memory": (
        "sandbox/build/test_slots.py::test_max_jobs_bounds_one_build",
        "sandbox/build/test_slots.py::test_memory_bounds_what_is_taken",
        "sandbox/build/test_build.py::test_a_compiler_that_runs_out_of_memory_is_told_and_spoils_nothing_that_follows",
    ),
    "toolkit, driver and torch are of different CUDA versions": (
        "sandbox/machine/test_compatibility.py::test_a_toolkit_needs_a_driver_of_its_major_version",
        "sandbox/machine/test_compatibility.py::test_torch_of_a_newer_cuda_than_the_driver_is_told_and_a_newer_toolkit_explained",
        "sandbox/build/test_build.py::test_an_old_driver_is_the_machines_fault",
        "cli/test_commands.py::test_the_doctor_compares_versions_and_makes_room",
    ),
    "toolkit or torch knows nothing of the GPU's architecture": (
        "sandbox/build/test_build.py::test_an_unknown_architecture_is_the_machines_fault",
        "sandbox/harness/test_startup.py::test_torch_needs_code_for_the_gpu",
        "sandbox/judge/test_tasks.py::test_a_torch_that_cannot_use_the_device_is_the_environments_fault",
    ),
    "nvcc refuses the host's compiler": (
        "sandbox/build/test_toolchain.py::test_a_host_compiler_too_new_is_explained",
        "sandbox/build/test_toolchain.py::test_an_older_host_compiler_beside_it_is_picked",
    ),
    "a library has undefined symbols, which shows when it is loaded": (
        "sandbox/build/test_build.py::test_an_undefined_symbol_is_found_at_link_time",
        "sandbox/build/test_build.py::test_an_undefined_library_function_names_its_library",
        "sandbox/build/test_diagnostics.py::test_the_loader_names_what_is_defined_nowhere",
        "sandbox/build/test_toolchain.py::test_a_library_that_would_not_load_is_the_machines_fault",
    ),
    "a missing tool, or a compiler that somebody killed, counts as the candidate's failure": (
        "sandbox/build/test_build.py::test_a_missing_compiler_is_not_the_candidates_fault",
        "sandbox/build/test_build.py::test_a_preprocessor_that_was_killed_is_nobodys_fault",
        "sandbox/build/test_toolchain.py::test_no_nvcc",
        "sandbox/judge/test_build_faults.py::test_a_candidate_that_compiles_its_own_extension_has_ninja_wherever_it_runs",
    ),
    "template noise fills what the model reads": (
        "sandbox/build/test_build.py::test_template_noise_becomes_the_line_that_caused_it",
        "sandbox/build/test_build.py::test_many_errors_are_cut_and_counted",
    ),
}
MEASURING = {
    "one illegal access or one hang spoils everything that comes after": (
        "sandbox/judge/test_verdicts.py::test_a_crash_is_named_with_its_kernel",
        "sandbox/judge/test_verdicts.py::test_a_kernel_that_never_returns_is_killed",
        "storm/test_storm.py::test_every_verdict_is_right_and_nothing_is_left",
        "gpu/test_judge.py::test_an_illegal_access_is_named_and_touches_nothing_else",
    ),
    "a wait without an end wedges the run": (
        "sandbox/judge/test_symptoms.py::test_a_module_that_never_answers_is_given_up_with_all_its_processes",
        "sandbox/harness/test_baselines.py::test_a_mode_that_an_interrupted_compiler_left_entered_is_left",
    ),
    "workers die or are killed, and nobody looks after them": (
        "sandbox/judge/test_processes_lost.py::test_killed_between_two_checks",
        "sandbox/judge/test_processes_lost.py::test_killed_in_the_middle_of_a_check",
    ),
    "a limit of time is used up by waiting for the GPU": (
        "sandbox/judge/test_symptoms.py::test_waiting_for_the_device_counts_against_nobody",
        "sandbox/machine/test_pool.py::test_waiting_is_counted_apart_and_can_be_given_up",
    ),
    "somebody else uses the GPU meanwhile": (
        "sandbox/timing/test_gpu_watch.py::test_a_desktop_is_no_trouble_and_a_busy_neighbour_is",
        "sandbox/machine/test_pool.py::test_first_come_first_served_and_whoever_is_killed_keeps_nobody_waiting",
        "sandbox/timing/test_timekeeper.py::test_disturbed_placements_are_drawn_again_until_there_are_enough_quiet_ones",
        "gpu/test_pool.py::test_the_watch_reads_clocks_and_sees_a_busy_neighbour",
    ),
    "clocks fall under load, or are not locked, and nobody is told": (
        "sandbox/timing/test_gpu_watch.py::test_clocks_that_fall_under_load_are",
        "sandbox/timing/test_gpu_watch.py::test_only_slowing_down_is_trouble",
    ),
    "a wrong kernel is timed, and its gain claimed": (
        "sandbox/judge/test_verdicts.py::test_a_wrong_answer_is_not_timed",
        "sandbox/test_reward.py::test_candidate_at_fault",
    ),
    "zeros and constants are accepted": (
        "sandbox/harness/test_original.py::TestTrivial::test_output_that_depends_on_nothing",
        "sandbox/harness/test_original.py::TestTrivial::test_tiny_outputs_under_the_published_tolerance",
    ),
    "weights are made differently in the two modules": (
        "sandbox/harness/test_candidate.py::TestCopyState::test_in_place_by_name",
        "sandbox/harness/test_candidate.py::TestCopyState::test_differences_are_named",
    ),
    "the two sides compute in different precision": (
        "sandbox/harness/test_precision.py::test_measured_by_switching_the_flags",
        "sandbox/harness/test_compare.py::TestBudget::test_tf32_fails_a_float32_task",
    ),
    "checks that were added make every verdict a third longer": (
        "sandbox/judge/test_symptoms.py::test_asking_again_has_a_budget_and_what_it_left_out_is_said",
    ),
    "one measurement turns the verdict over": (
        "sandbox/timing/test_statistics.py::test_placements_count_and_repeats_do_not",
        "sandbox/timing/test_statistics.py::test_drawing_on_while_undecided_makes_no_false_wins",
        "sandbox/test_reward.py::test_an_interval_too_wide_is_blamed_on_the_measurement",
    ),
    "one side is timed cold and the other warm, one after the other": (
        "sandbox/judge/test_symptoms.py::test_sides_are_timed_interleaved_and_in_no_fixed_order",
        "sandbox/timing/test_placement_run.py::test_warm_times_of_every_side_where_they_are_wanted",
    ),
    "ways of timing disagree, and one number hides which it is": (
        "sandbox/judge/test_profile.py::test_a_full_profile_of_a_task_judged_by_latency",
        "sandbox/timing/test_profile_report.py::test_judged_by_latency_everything_is_about_latency",
        "sandbox/timing/test_event_cost.py::test_a_time_is_less_by_the_cost_and_never_less_than_a_quarter",
    ),
    "the time to get ready counts as the kernel's": (
        "sandbox/timing/test_profile_report.py::test_modes_keep_their_warm_times_their_preparation_and_their_errors",
        "sandbox/judge/test_profile.py::test_the_workers_of_all_placements_get_ready_once_the_first_answer_is_right_and_none_is_left",
    ),
    "the compiled baseline replays graphs and is not like for like": (
        "sandbox/timing/test_profile_report.py::test_the_best_may_replay_graphs_and_then_the_fastest_without_is_named_too",
        "sandbox/timing/test_placement_run.py::test_the_graph_is_captured_before_it_is_timed_and_only_that_side_is_replayed",
    ),
    "a gain of three times or a hundred is believed as it is": (
        "sandbox/timing/test_timekeeper.py::test_a_gain_over_three_times_is_measured_again",
        "sandbox/timing/test_profile_report.py::test_ten_times_the_best_needs_the_developers_eyes",
    ),
    "peaks are taken from a table, and times that no memory allows are believed": (
        "sandbox/judge/test_parts.py::TestClocks::test_no_time_is_under_the_bytes",
        "sandbox/timing/test_profile_report.py::test_the_copy_is_the_end_of_the_road",
    ),
    "another kernel is timed than the one that was written": (
        "sandbox/judge/test_symptoms.py::test_what_is_judged_is_the_state_of_the_files_now",
        "sandbox/judge/test_ahead.py::test_other_kernels_than_those_built_ahead_are_built",
    ),
    "a full run does not end in time and leaves nothing": (
        "sandbox/judge/test_profile.py::test_early_results_follow_each_placement",
        "sandbox/timing/test_placement_run.py::test_precise_times_end_early_and_wild_ones_go_on",
    ),
    "a speed-up cannot be looked at again": (
        "sandbox/judge/test_symptoms.py::test_the_figures_of_a_verdict_follow_from_what_is_stored_with_it",
    ),
    "the guards were never loaded": (
        "sandbox/guard/test_alive.py::test_a_dead_guard_is_named",
        "sandbox/guard/test_alive.py::test_check_judges_nothing_with_a_dead_guard",
        "gpu/test_guard.py::test_every_guard_is_alive",
    ),
}
PROFILING = {
    "ncu may not read the counters, or somebody else holds them": (
        "sandbox/looking/test_nsight.py::test_what_ncu_refuses_is_explained_with_what_to_do",
        "sandbox/looking/test_nsight.py::test_closed_counters_are_noticed_before_anything_runs",
    ),
    "ncu replays every kernel forty times": (
        "sandbox/looking/test_nsight.py::test_one_call_is_profiled_for_what_the_digest_reads",
    ),
    "its output fills what the model reads": (
        "sandbox/looking/test_nsight.py::test_a_digest_is_a_screen_that_ends_in_the_limiter",
    ),
    "the tracer sees no kernel, as where another profiler has it": (
        "sandbox/test_variables.py::test_a_profiler_around_the_judge_does_not_get_into_its_processes",
        "sandbox/judge/test_parts.py::TestOwnership::test_a_profiler_that_sees_nothing_rejects_nobody_and_says_so",
        "sandbox/timing/test_kernel_runs.py::test_without_the_geometry_nothing_is_guessed",
        "gpu/test_nsight.py::test_the_judge_is_as_it_was_afterwards",
    ),
    "accesses out of bounds stay inside the allocator's slab and are not found": (
        "sandbox/judge/test_sanitizer.py::test_a_fault_is_found_with_its_line",
        "gpu/test_sanitizer.py::test_a_fault_is_found_by_the_tool_meant_to_find_it",
    ),
}
SYMPTOMS = {**BUILDING, **MEASURING, **PROFILING}


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_our_answer_is_shown(symptom: str) -> None:
    assert_shown(SYMPTOMS[symptom])
