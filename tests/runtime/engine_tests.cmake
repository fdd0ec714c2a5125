# The tests of the engine: planning without MPI, and execution on several ranks.
tp_test(api_test ${CMAKE_CURRENT_LIST_DIR}/batch_line_test.cc LIBS tp_api LABELS unit)
tp_test(leader_test ${CMAKE_CURRENT_LIST_DIR}/engine_plan_test.cc ${CMAKE_CURRENT_LIST_DIR}/memory_plan_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/leader_test.cc ${CMAKE_CURRENT_LIST_DIR}/leader_stress_test.cc ${CMAKE_CURRENT_LIST_DIR}/leader_requests_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/leader_window_test.cc ${CMAKE_CURRENT_LIST_DIR}/leader_load_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/leader_states_test.cc ${CMAKE_CURRENT_LIST_DIR}/leader_speculation_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/model_source_test.cc ${CMAKE_CURRENT_LIST_DIR}/answer_history_test.cc ${CMAKE_CURRENT_LIST_DIR}/suffix_automaton_test.cc ${CMAKE_CURRENT_LIST_DIR}/speculator_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/leader_constraint_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/leader_recompute_test.cc ${CMAKE_CURRENT_LIST_DIR}/leader_pass_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/leader_queue_test.cc ${CMAKE_CURRENT_LIST_DIR}/overlap_choice_test.cc ${CMAKE_CURRENT_LIST_DIR}/step_times_test.cc ${CMAKE_CURRENT_LIST_DIR}/command_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/stop_matcher_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/thinking_watch_test.cc LIBS tp_runtime tp_reference LABELS unit threads)
tp_test(unmasking_test ${CMAKE_CURRENT_LIST_DIR}/unmasked_text_test.cc LIBS tp_runtime tp_reference LABELS unit)
tp_test(plan_test ${CMAKE_CURRENT_LIST_DIR}/prediction_test.cc LIBS tp_runtime tp_reference LABELS unit)
tp_test(engine_test ${CMAKE_CURRENT_LIST_DIR}/engine_generation_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_ending_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/engine_logits_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_errors_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_notices_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/engine_favor_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/engine_load_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_window_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_states_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_same_bits_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_speculation_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_overlap_test.cc ${CMAKE_CURRENT_LIST_DIR}/draft_model_test.cc ${CMAKE_CURRENT_LIST_DIR}/engine_pipeline_test.cc ${CMAKE_CURRENT_LIST_DIR}/worker_test.cc LIBS tp_runtime tp_reference RANKS 1 2 3 4 LABELS parallel threads)
tp_test(next_token_test ${PROJECT_SOURCE_DIR}/tests/model/next_token_test.cc ${CMAKE_CURRENT_LIST_DIR}/mtp_test.cc ${CMAKE_CURRENT_LIST_DIR}/mtp_tables_test.cc
        LIBS tp_runtime tp_reference RANKS 2 3 LABELS parallel)
# Replaces operator new, as clang's runtime for the thread sanitizer does.
if(NOT TP_SANITIZE_THREADS)
  tp_test(exhaustion_test ${CMAKE_CURRENT_LIST_DIR}/exhaustion_test.cc LIBS tp_runtime tp_reference RANKS 2 LABELS parallel)
endif()
tp_test(differential_test ${PROJECT_SOURCE_DIR}/tests/differential/differential_test.cc
        ${PROJECT_SOURCE_DIR}/tests/differential/random_trial.cc LIBS tp_runtime tp_reference RANKS 2 3 LABELS parallel)
tp_compile_alone(${CMAKE_CURRENT_LIST_DIR}/engine_ending_test.cc ${CMAKE_CURRENT_LIST_DIR}/leader_window_test.cc
                 ${CMAKE_CURRENT_LIST_DIR}/engine_overlap_test.cc ${CMAKE_CURRENT_LIST_DIR}/worker_test.cc)
tp_test(diffusion_test ${CMAKE_CURRENT_LIST_DIR}/diffusion_test.cc ${CMAKE_CURRENT_LIST_DIR}/unmask_cache_test.cc ${CMAKE_CURRENT_LIST_DIR}/sharded_guess_test.cc LIBS tp_runtime tp_reference RANKS 1 2 3 4 LABELS parallel)
tp_test(seq2seq_test ${CMAKE_CURRENT_LIST_DIR}/seq2seq_test.cc ${CMAKE_CURRENT_LIST_DIR}/seq2seq_generation_test.cc ${PROJECT_SOURCE_DIR}/tests/model/seq2seq_families_test.cc
        ${CMAKE_CURRENT_LIST_DIR}/beam_state_test.cc ${CMAKE_CURRENT_LIST_DIR}/beam_search_test.cc
        LIBS tp_runtime tp_reference RANKS 1 2 3 4 LABELS parallel)
tp_test(encoder_test ${CMAKE_CURRENT_LIST_DIR}/encoder_test.cc LIBS tp_runtime tp_reference RANKS 1 2 3 4 6 LABELS parallel)
