# Creates a tree with one violation of every rule and expects check_layers.cmake to report exactly these.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})
file(WRITE ${SCRATCH}/include/tp/mpi.h "#include \"tp/tensor.h\"\n#include <mpi.h>\n")
file(WRITE ${SCRATCH}/include/tp/tensor.h "#include \"parallel/shard.h\"\n")
file(WRITE ${SCRATCH}/parallel/shard.cc "#include \"parallel/shard.h\"\n#include <mpi.h>\n#include \"model/spec.h\"\n")
file(WRITE ${SCRATCH}/model/spec.h "#include \"parallel/shard.h\"\n  #  include <mpi.h>\n")
file(WRITE ${SCRATCH}/model/mlp.cc "#include \"mlp.h\"\n#include \"../runtime/step.h\"\n#include <vector>\n")
file(WRITE ${SCRATCH}/model/kernels/matmul.cc "#include \"parallel/shard.h\"\n#include \"model/threads.h\"\n")
file(WRITE ${SCRATCH}/runtime/step.h "#include \"launch/main.h\"\n#include \"model/spec.h\"\n")
file(WRITE ${SCRATCH}/launch/main.cc "#include \"runtime/step.h\"\n#include \"tests/x.h\"\n")
file(WRITE ${SCRATCH}/tests/forgotten_test.cc "")
file(WRITE ${SCRATCH}/tests/unbuilt_test.cc "")
file(WRITE ${SCRATCH}/compile_commands.json
     "[{\"file\": \"${SCRATCH}/parallel/shard.cc\"}, {\"file\": \"${SCRATCH}/model/mlp.cc\"},"
     " {\"file\": \"${SCRATCH}/model/kernels/matmul.cc\"}, {\"file\": \"${SCRATCH}/launch/main.cc\"}]")
execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${SCRATCH} -D COMPILED=${SCRATCH}/compile_commands.json
                        -D UNBUILT=tests/unbuilt_test.cc
                        -P ${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake
                RESULT_VARIABLE status ERROR_VARIABLE text)
if(status EQUAL 0)
  message(FATAL_ERROR "no violation was detected")
endif()
set(expected
    "include/tp/tensor.h includes \"parallel/shard.h\""
    "parallel/shard.cc includes \"model/spec.h\""
    "model/spec.h includes <mpi.h>"
    "model/mlp.cc includes \"mlp.h\""
    "model/mlp.cc includes \"../runtime/step.h\""
    "model/kernels/matmul.cc includes \"parallel/shard.h\""
    "runtime/step.h includes \"launch/main.h\""
    "launch/main.cc includes \"tests/x.h\""
    "tests/forgotten_test.cc is in no target")
foreach(violation IN LISTS expected)
  string(FIND "${text}" "${violation}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "not detected: ${violation}\nin:\n${text}")
  endif()
endforeach()
string(REGEX MATCHALL "(includes|is in no target)" found "${text}")
list(LENGTH found found_count)
list(LENGTH expected expected_count)
if(NOT found_count EQUAL expected_count)
  message(FATAL_ERROR "expected ${expected_count} violations, found ${found_count}:\n${text}")
endif()
