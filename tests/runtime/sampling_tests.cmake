# The tests of sampling and cache decisions, for the CMakeLists.txt of the tests.
foreach(name random_draw candidates sampler sampler_property request block_manager block_manager_model)
  tp_test(${name}_test ${CMAKE_CURRENT_LIST_DIR}/${name}_test.cc LIBS tp_runtime tp_options LABELS unit)
endforeach()
