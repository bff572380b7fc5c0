"""What is asked of building, verifying and measuring, sentence by sentence, and the tests that show it.

Each names its tests by file (below ``tests/``) and function, as ``test_complaints`` does with what people report.
"""

from __future__ import annotations

import pytest

from tests.shown import assert_shown

BUILD = {
    "content-addressed and shared across sessions": (
        "sandbox/build/test_build.py::test_the_same_state_is_answered_without_compiling",
        "sandbox/build/test_build.py::test_of_eight_builds_at_once_each_state_is_compiled_once",
    ),
    "bounded, shown and pruned by the doctor": (
        "sandbox/machine/test_cache.py::test_the_longest_unused_goes_first_and_the_bound_holds_on_a_busy_day",
        "sandbox/machine/test_cache.py::test_usage_names_every_part",
        "cli/test_commands.py::test_the_doctor_compares_versions_and_makes_room",
    ),
    "parallel, bounded by cores and memory": (
        "sandbox/build/test_slots.py::test_a_build_takes_what_is_free_and_waits_when_nothing_is",
        "sandbox/build/test_slots.py::test_slots_are_as_many_as_processors_and_memory_allow",
        "sandbox/build/test_slots.py::test_memory_bounds_what_is_taken",
    ),
    "no lock of a dead build is waited for": (
        "sandbox/build/test_build.py::test_a_killed_build_leaves_nothing_that_the_next_waits_for",
        "sandbox/build/test_slots.py::test_what_a_killed_build_held_is_free_at_once",
    ),
    "an early answer where device code does not compile": (
        "sandbox/build/test_halves.py::test_an_error_in_device_code_is_told_before_the_host_compiler_begins",
    ),
    "large headers are helped as far as it goes": (
        "sandbox/build/test_halves.py::test_an_edit_of_a_body_needs_no_host_compiler_and_gives_the_same_library",
    ),
    "toolkit, host compiler, torch and architecture that do not fit are explained": (
        "sandbox/machine/test_compatibility.py::test_a_toolkit_needs_a_driver_of_its_major_version",
        "sandbox/build/test_toolchain.py::test_a_host_compiler_too_new_is_explained",
        "sandbox/harness/test_startup.py::test_torch_needs_code_for_the_gpu",
        "sandbox/build/test_build.py::test_an_unknown_architecture_is_the_machines_fault",
    ),
}
VERIFY = {
    "signs, scale, tails, ties, one huge element": (
        "sandbox/test_plans.py::test_full_asks_for_what_the_task_has",
        "sandbox/harness/test_variants.py::TestFaultsThatFreshInputsHide::test_are_found",
        "sandbox/harness/test_variants.py::TestFaultsThatFreshInputsHide::test_a_wrong_tail_beside_one_huge_element",
        "sandbox/harness/test_variants.py::TestFaultsThatFreshInputsHide::test_many_equal_values",
    ),
    "odd, tiny and large sizes where dimensions are dynamic": (
        "sandbox/test_plans.py::test_sizes_reach_both_ends_and_are_odd_between",
        "sandbox/judge/test_verifying.py::test_a_wrong_size",
    ),
    "inputs that are not contiguous, or misaligned": (
        "sandbox/judge/test_verifying.py::test_strides_that_a_kernel_takes_and_does_not_heed",
        "sandbox/judge/test_verifying.py::test_a_misaligned_input_of_a_kernel_that_takes_any_view",
        "sandbox/harness/test_variants.py::TestLayouts::test_what_the_original_refuses_is_left_out",
    ),
    "every dtype that the developer's run uses": (
        "sandbox/captures/test_forms.py::test_each_is_verified_and_one_that_fails_is_named",
        "gpu/test_forms.py::test_forms_are_verified_and_timed_and_one_that_loses_the_device_fails_alone",
    ),
    "train and eval": (
        "sandbox/test_plans.py::test_only_a_module_that_is_trained_must_answer_in_both_modes",
        "sandbox/judge/test_verifying.py::TestOtherMode::test_a_kernel_for_eval_mode_alone",
    ),
    "gradients against float64": (
        "sandbox/judge/test_verifying.py::test_a_wrong_gradient",
        "sandbox/harness/test_variants.py::TestGradients::test_are_those_of_float64",
    ),
    "three calls bit for bit, and differences that are allowed said": (
        "sandbox/judge/test_verdicts.py::test_calls_that_differ_in_their_last_bits_are_right_and_said",
    ),
    "outputs of several calls held and compared together": (
        "sandbox/judge/test_verdicts.py::test_an_answer_that_a_later_call_overwrites_is_found",
    ),
}
TASK_CHECK = {
    "deterministic": ("sandbox/harness/test_original.py::TestNotDeterministic::test_is_refused_with_its_cause",),
    "the output depends on the inputs, or it is refused with exit code 2": (
        "sandbox/harness/test_original.py::TestTrivial::test_output_that_depends_on_nothing",
        "cli/test_bad_input.py::test_a_task_that_cannot_be_used_is_2",
    ),
    "parameters that are ignored are named": (
        "sandbox/harness/test_original.py::TestAccepted::test_ignored_inputs_and_parameters_are_named",
    ),
    "trivial answers fail": (
        "sandbox/harness/test_original.py::TestTrivial::test_output_that_is_an_input",
        "sandbox/harness/test_original.py::TestTrivial::test_tiny_outputs_under_the_published_tolerance",
    ),
    "whether TF32 is used is measured": ("sandbox/harness/test_precision.py::test_measured_by_switching_the_flags",),
    "each mode of torch.compile within its own limit": (
        "sandbox/judge/test_verdicts.py::test_a_right_candidate_is_timed_beside_the_baselines",
        "sandbox/timing/test_profile_report.py::test_modes_keep_their_warm_times_their_preparation_and_their_errors",
    ),
    "all of it is told": (
        "sandbox/judge/test_profile.py::test_a_full_profile_of_a_task_judged_by_latency",
        "agent/test_verdict_text.py::test_the_original_is_told_with_operators_baselines_floor_and_dependencies",
    ),
}
PROFILE = {
    "every mode, and CUDA graphs of both sides": (
        "sandbox/timing/test_placement_run.py::test_the_graph_is_captured_before_it_is_timed_and_only_that_side_is_replayed",
        "gpu/test_profile.py::test_a_full_profile",
    ),
    "cold and warm": ("sandbox/timing/test_placement_run.py::test_warm_times_of_every_side_where_they_are_wanted",),
    "device time, latency and the copy": (
        "sandbox/timing/test_placement_run.py::test_every_time_on_the_device_is_without_what_events_cost_and_latency_as_it_is",
        "sandbox/timing/test_profile_report.py::test_the_copy_is_the_end_of_the_road",
    ),
    "the kernels that ran, with what they use": (
        "sandbox/timing/test_kernel_runs.py::test_kernels_are_added_up_and_matched_with_the_build_by_name",
        "sandbox/timing/test_kernel_runs.py::test_occupancy_is_limited_by_what_runs_out_first",
        "sandbox/build/test_build.py::test_spills_are_counted",
    ),
    "as many samples as it takes": (
        "sandbox/timing/test_placement_run.py::test_precise_times_end_early_and_wild_ones_go_on",
    ),
    "over three times again with new inputs, over ten before the developer's eyes": (
        "sandbox/timing/test_timekeeper.py::test_a_gain_over_three_times_is_measured_again",
        "sandbox/timing/test_profile_report.py::test_ten_times_the_best_needs_the_developers_eyes",
        "agent/test_verdict_text.py::test_what_needs_the_developer_has_a_line_of_its_own",
    ),
}
POOL = {
    "one exclusive lease a GPU, with its owner, taken over from a dead or standing one": (
        "sandbox/machine/test_pool.py::test_first_come_first_served_and_whoever_is_killed_keeps_nobody_waiting",
        "sandbox/machine/test_pool.py::test_an_owner_that_stands_still_is_passed_over_and_everybody_learns_it",
    ),
    "a fair queue whose waiting counts against nobody": (
        "sandbox/machine/test_pool.py::test_waiting_is_counted_apart_and_can_be_given_up",
        "sandbox/judge/test_symptoms.py::test_waiting_for_the_device_counts_against_nobody",
    ),
    "as many verdicts at once as GPUs": (
        "sandbox/machine/test_pool.py::test_whoever_comes_later_chooses_another_device",
    ),
    "foreign use, throttling, clocks, temperature": (
        "sandbox/timing/test_gpu_watch.py::test_only_slowing_down_is_trouble",
        "sandbox/timing/test_gpu_watch.py::test_a_desktop_is_no_trouble_and_a_busy_neighbour_is",
        "gpu/test_pool.py::test_the_watch_reads_clocks_and_sees_a_busy_neighbour",
    ),
    "a GPU that two processes cannot share": (
        "sandbox/machine/test_devices.py::test_a_gpu_that_two_processes_cannot_share_is_explained",
    ),
}
LOOKING = {
    "ncu: a digest of one screen that ends in the likeliest limiter": (
        "sandbox/looking/test_nsight.py::test_a_digest_is_a_screen_that_ends_in_the_limiter",
        "gpu/test_nsight.py::test_a_streaming_kernel_is_bound_by_memory",
    ),
    "the four tools of compute-sanitizer": (
        "sandbox/looking/test_sanitizer_reports.py::test_a_race_names_both_lines_and_counts_its_hazards",
        "gpu/test_sanitizer.py::test_a_fault_is_found_by_the_tool_meant_to_find_it",
    ),
    "a missing permission is explained, and the verdict goes on": (
        "sandbox/looking/test_nsight.py::test_closed_counters_are_noticed_before_anything_runs",
    ),
    "tools for the agent": ("agent/test_looking.py::test_the_agent_looks_closer_and_nothing_of_it_counts",),
    "one call judges several values, and says which is best": (
        "sandbox/judge/test_variants.py::test_a_sweep_times_what_is_right_and_names_what_falls_out",
        "sandbox/judge/test_variants.py::test_of_many_variants_the_fastest_are_measured_again",
    ),
    "an ablation is timed, marked, and never counts": (
        "sandbox/judge/test_variants.py::test_an_ablation_times_what_is_wrong_and_never_counts",
    ),
    "warnings of ptxas that cost speed": (
        "sandbox/build/test_advice.py::test_serialised_products_and_spills_of_a_real_file_are_warnings",
    ),
}
REST = {
    "a task that fills 60 % of the card": (
        "sandbox/judge/test_crowded.py::test_it_is_judged_with_few_copies_and_says_how",
        "sandbox/harness/test_oracle.py::TestSampledRows::test_rows_that_are_independent",
        "gpu/test_memory.py::test_a_task_of_60_percent_of_the_gpu_is_judged",
    ),
    "stages are events, with partial results as they come": (
        "sandbox/judge/test_profile.py::test_early_results_follow_each_placement",
    ),
    "figures through the code path of a verdict, added up, beside the usual protocols": (
        "gpu/test_figures.py::test_trials_are_whole_verdicts_beside_the_usual_protocols",
        "gpu/test_figures.py::test_runs_add_up_and_false_wins_are_counted",
        "sandbox/timing/test_statistics.py::test_drawing_on_while_undecided_makes_no_false_wins",
    ),
    "twenty tasks of many kinds, the reference as candidate": (
        "sandbox/judge/test_kinds.py::test_the_reference_is_right",
        "gpu/test_kinds.py::test_the_reference_is_right_and_wins_nothing",
    ),
    "each fault is found by the part meant to find it": (
        "sandbox/judge/test_verifying.py::test_a_fault_and_its_case",
        "sandbox/judge/test_verifying.py::test_a_race",
        "sandbox/judge/test_verdicts.py::test_uninitialised_output_is_wrong",
        "sandbox/judge/test_sanitizer.py::test_a_fault_is_found_with_its_line",
        "gpu/test_faults.py::test_a_fault_and_its_case",
    ),
}
SENTENCES = {**BUILD, **VERIFY, **TASK_CHECK, **PROFILE, **POOL, **LOOKING, **REST}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_it_is_shown(sentence: str) -> None:
    assert_shown(SENTENCES[sentence])
