"""What is asked of finding a module, capturing, landing and keeping it, sentence by sentence, and the tests that show it.

Each names its tests by file (below ``tests/``) and function. The walks of real modules, with their figures, are ``gpu/walks.md``.
"""

from __future__ import annotations

import pytest

from tests.shown import assert_shown

HOTSPOTS = {
    "the developer's own script, ranked by share of device time and of latency": (
        "cli/test_hotspots.py::test_a_script_without_end_is_ranked_shown_and_compared",
        "sandbox/hotspots/test_recording.py::test_the_backward_pass_belongs_to_the_module_whose_nodes_run",
        "gpu/test_hotspots.py::test_device_time_is_that_of_the_gpu_and_never_waited_for",
    ),
    "under torchrun": ("sandbox/hotspots/test_recording.py::test_every_rank_of_a_distributed_run_is_recorded",),
    "with workers of a DataLoader": (
        "sandbox/hotspots/test_recording.py::test_workers_are_not_recorded_their_sitecustomize_runs_and_a_hard_end_leaves_what_was_known",
    ),
    "dtype, shapes, mode and calls": ("cli/test_hotspots.py::test_a_script_without_end_is_ranked_shown_and_compared",),
    "the distance from a copy, and whether torch.compile has the gain": (
        "app/test_hotspots_report.py::test_a_class_is_told_with_what_there_is_to_gain",
        "sandbox/hotspots/test_gain.py::test_the_projects_own_classes_come_before_those_of_packages",
        "gpu/test_hotspots.py::test_device_time_is_that_of_the_gpu_and_never_waited_for",
    ),
    "what is compiled already is seen": (
        "sandbox/hotspots/test_recording.py::test_compiled_modules_are_seen_as_a_whole_and_compiled_once",
    ),
    "opens in the IDE, and Enter opens a session on the module": (
        "app/test_hotspots_screen.py::test_the_list_tells_shares_and_why_a_class_cannot_be_opened",
        "app/test_hotspots_screen.py::test_enter_opens_a_session_on_the_capture",
    ),
}
CAPTURE = {
    "the inputs and state of the first calls become the task": (
        "sandbox/captures/test_captures.py::test_a_task_answers_the_captured_call_as_the_run_did",
        "sandbox/captures/test_captures.py::test_fresh_inputs_are_like_those_that_were_seen",
        "sandbox/captures/test_captures.py::TestJudging::test_a_captured_module_is_correct_as_its_own_candidate",
    ),
    "mode, autocast and gradient context": (
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_autocast_gradients_and_parts_in_another_mode",
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_without_gradients_if_asked",
    ),
    "shapes that were seen are its range": (
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_arguments_mode_and_sizes",
        "sandbox/captures/test_forms.py::test_what_lands_holds_for_those_that_are_covered",
    ),
    "many weights are described, not copied, unless asked": (
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_state_that_was_only_described_is_drawn_alike",
        "sandbox/hotspots/test_recording.py::test_much_state_is_described_unless_its_copy_is_asked_for",
    ),
    "saved inputs too": (
        "sandbox/captures/test_captures.py::TestSavedInputs::test_a_file_of_tensors_gives_the_inputs",
    ),
    "keywords, None, arguments that are no tensors": (
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_arguments_mode_and_sizes",
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_plain_arguments_are_known_to_a_landing",
        "sandbox/captures/test_captures.py::TestSavedInputs::test_a_file_of_tensors_gives_the_inputs",
    ),
    "shared parameters": ("sandbox/captures/test_captures.py::TestWhatIsKept::test_shared_parameters_stay_shared",),
    "hooks and parametrizations": (
        "sandbox/captures/test_captures.py::TestWhatIsKept::test_what_a_developer_is_told",
        "sandbox/captures/test_captures.py::test_a_task_answers_the_captured_call_as_the_run_did",
    ),
    "subclasses of nn.Linear; modules under torch.compile or DDP": (
        "sandbox/captures/test_captures.py::test_a_task_answers_the_captured_call_as_the_run_did",
    ),
}
LANDING = {
    "a patch in the style of their file: indentation, line ends, imports in place": (
        "agent/landing/test_source.py::test_indented_in_a_branch_with_its_indentation",
        "agent/landing/test_source.py::test_byte_order_mark_encoding_and_carriage_returns",
        "agent/landing/test_source.py::test_beside_the_import_of_the_kernels",
        "agent/landing/test_plan.py::test_line_ends_are_kept",
        "agent/landing/test_plan.py::test_the_judged_bytes_land_with_one_decorator_and_its_import",
    ),
    "one folder of kernels": (
        "agent/landing/test_plan.py::test_planning_writes_nothing_and_names_the_file_and_one_folder",
    ),
    "a proper operator": ("agent/landing/test_landed.py::test_compilers_see_through_both_ways",),
    "preconditions with counted fallback to the original code": (
        "agent/landing/test_landed.py::test_a_verified_call_runs_the_kernel_and_every_other_the_original",
        "agent/landing/test_attributes.py::test_layers_that_differ_in_what_nothing_reads_run_the_kernels_and_others_do_not",
    ),
    "builds on first use with a lock and a cache": (
        "agent/landing/test_build.py::test_files_become_one_library_that_is_made_once",
        "agent/landing/test_build.py::test_a_builder_that_is_killed_leaves_nothing_in_the_way",
        "agent/landing/test_landed.py::test_processes_that_compile_at_once_make_one_library",
    ),
    "without Warpsmith installed": (
        "agent/landing/test_landed.py::test_a_verified_call_runs_the_kernel_and_every_other_the_original",
    ),
    "the verdict that gates it is of the form that lands": (
        "agent/test_end_to_end.py::test_it_is_accepted_in_part_judged_landed_and_undone_byte_by_byte",
        "agent/test_landing_desk.py::test_what_is_wrong_in_the_form_in_which_it_lands_lands_on_nobodys_word",
        "agent/test_landing_desk.py::test_what_lands_is_judged_again_while_the_machine_is_busy_and_no_longer",
        "gpu/test_landed.py::test_the_verdict_of_what_lands",
    ),
}
GIT = {
    "one commit when wanted, staged work as it was, only the landed paths refreshed": (
        "agent/landing/test_commit.py::test_the_commit_holds_what_landed_and_staged_work_stays",
        "app/test_ide.py::test_a_landing_can_be_one_commit_where_there_is_a_repository",
    ),
    "compare and swap on the ref": (
        "agent/landing/test_commit.py::test_what_happens_meanwhile_leaves_everything_to_the_developer",
    ),
    "hooks do not run, and that is said": (
        "agent/landing/test_commit.py::test_hooks_and_signatures_that_are_left_out_are_named",
    ),
    "or the working tree only": (
        "agent/landing/test_write.py::test_a_landing_touches_its_files_only_and_undo_restores_everything",
    ),
    "undo by comparison, file by file": (
        "agent/landing/test_write.py::test_an_edited_kernel_is_left_alone_and_the_rest_is_restored",
        "agent/test_landing_desk.py::test_undoing_says_what_became_of_each_file",
    ),
    "undo of undo": (
        "agent/landing/test_write.py::test_an_undo_can_be_undone",
        "agent/test_landing_desk.py::test_a_committed_landing_is_undone_and_landed_again_by_commits",
    ),
    "refusal with a reason where they have edited since": (
        "agent/test_landing_desk.py::test_an_undo_over_edits_is_refused_unless_a_part_is_wanted",
        "agent/test_landing_desk.py::test_a_redo_over_edits_is_refused",
        "agent/test_keeping.py::test_an_undo_over_edits_says_which_and_takes_back_the_rest",
    ),
}
END_TO_END = {
    "their script again for as long": ("cli/test_hotspots.py::test_a_script_without_end_is_ranked_shown_and_compared",),
    "share, time a step, loss unchanged within noise": (
        "sandbox/hotspots/test_compare.py::test_the_conclusion_follows_from_the_interval",
        "sandbox/hotspots/test_compare.py::test_losses_are_the_same_where_their_difference_is_noise",
        "app/test_hotspots_screen.py::test_a_comparison_is_shown_as_it_goes_and_ended_with_its_window",
    ),
    "said honestly when nothing came of it, or more than it can make": (
        "sandbox/hotspots/test_compare.py::test_kernels_that_did_not_run_and_landings_that_were_not_loaded_are_said",
        "sandbox/hotspots/test_compare.py::test_kernels_that_ran_in_few_calls_are_said_with_the_reason_of_most",
        "sandbox/hotspots/test_compare.py::test_more_than_what_landed_can_make_is_said_to_be_more",
    ),
}
KEEPING = {
    "judged again as it lies there": ("agent/test_keeping.py::test_what_landed_and_is_wrong_now_fails",),
    "which are stale by a new torch, driver or GPU, or an edited module": (
        "agent/test_keeping.py::test_a_landing_is_listed_with_what_became_of_it",
        "agent/test_keeping.py::test_a_landing_grows_stale_with_torch",
        "agent/test_keeping.py::test_a_landing_grows_stale_with_another_machine",
    ),
    "which are slower than the original now": (
        "agent/test_keeping.py::test_a_landing_is_slower_than_its_original_where_the_whole_interval_is",
    ),
    "a session to retune": (
        "agent/test_keeping.py::test_a_session_to_retune_begins_with_the_original_and_lands_in_its_place",
    ),
    "undone from there": ("agent/test_keeping.py::test_an_undo_can_be_one_commit",),
    "an index that a colleague's clone can use": (
        "agent/test_keeping.py::test_a_clone_undoes_it_by_what_landed_alone",
        "agent/test_keeping.py::test_what_a_clone_names_elsewhere_is_not_touched",
        "agent/landing/test_index.py::test_a_landing_is_noted_with_what_makes_its_task_and_no_absolute_path",
        "agent/landing/test_index.py::test_git_merges_what_two_branches_landed",
    ),
}
STATES = {
    "staged, stash, hooks, submodule, worktree, link, mode bits, CRLF, unborn, detached, no git, read-only": (
        "agent/landing/test_states.py::test_no_byte_of_the_developers_is_lost",
        "agent/landing/test_write.py::test_a_landing_touches_its_files_only_and_undo_restores_everything",
    ),
    "a symbolic link": ("agent/landing/test_write.py::test_a_symbolic_link_is_refused_and_its_target_named",),
    "a read-only folder": (
        "agent/landing/test_write.py::test_a_read_only_folder_is_refused",
        "agent/landing/test_commit.py::test_a_repository_that_cannot_be_written_is_left_as_it_is",
    ),
    "a full disk": (
        "agent/landing/test_write.py::test_a_full_disk_is_refused_and_nothing_is_lost",
        "agent/landing/test_commit.py::test_a_disk_that_fills_up_on_the_way_leaves_everything_as_it_was",
    ),
    "a crash between any two steps": (
        "agent/landing/test_write.py::test_killed_at_any_step_undo_leads_back_and_the_module_always_works",
        "agent/landing/test_commit.py::test_killed_before_a_telling_step_the_next_start_completes_it_or_takes_it_back",
        "agent/test_landing_desk.py::test_a_landing_whose_event_was_never_stored_is_taken_back",
    ),
    "an edit at the moment of writing": (
        "agent/landing/test_write.py::test_an_edit_at_the_moment_of_writing_is_found_and_kept",
        "agent/landing/test_write.py::test_what_another_process_saves_meanwhile_is_never_written_over",
    ),
}
PRECONDITIONS = {
    "dtype, device, layout, shape, requires_grad": (
        "agent/landing/test_landed.py::test_a_verified_call_runs_the_kernel_and_every_other_the_original",
        "agent/landing/test_preconditions.py::test_tensors_of_other_kinds_run_the_original",
        "gpu/test_landed.py::test_calls_graphs_streams_and_what_was_not_verified",
    ),
    "under vmap, in a traced graph": (
        "agent/landing/test_preconditions.py::test_what_is_traced_or_transformed_runs_the_original",
    ),
    "warned once, counted": (
        "agent/landing/test_landed.py::test_a_verified_call_runs_the_kernel_and_every_other_the_original",
        "agent/landing/test_preconditions.py::test_what_is_traced_or_transformed_runs_the_original",
    ),
}
LANDED = {
    "torch.compile and torch.export": (
        "agent/landing/test_landed.py::test_compilers_see_through_both_ways",
        "agent/landing/test_trained.py::test_a_compiler_takes_both_directions",
        "agent/landing/test_attributes.py::test_compiled_and_exported_they_are_told_apart_alike",
    ),
    "gradcheck": ("agent/landing/test_trained.py::test_gradients_are_the_kernels_own",),
    "DDP, gloo, two processes": ("agent/landing/test_trained.py::test_two_processes_train_together",),
    "deepcopy, pickle, a round trip of state_dict": (
        "agent/landing/test_landed.py::test_the_class_is_still_the_class",
    ),
}
SENTENCES = {
    **HOTSPOTS,
    **CAPTURE,
    **LANDING,
    **GIT,
    **END_TO_END,
    **KEEPING,
    **STATES,
    **PRECONDITIONS,
    **LANDED,
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_it_is_shown(sentence: str) -> None:
    assert_shown(SENTENCES[sentence])
