# The tests of sampling and of the cache's bookkeeping.
foreach(name random_draw candidates draft_acceptance packed_masks request block_manager block_groups block_manager_model token_bans)
  tp_test(${name}_test ${CMAKE_CURRENT_LIST_DIR}/${name}_test.cc LIBS tp_runtime tp_options LABELS unit)
endforeach()
tp_test(sampler_test ${CMAKE_CURRENT_LIST_DIR}/sampler_test.cc ${CMAKE_CURRENT_LIST_DIR}/sampler_property_test.cc
        LIBS tp_runtime tp_reference RANKS 2 3 LABELS parallel)
