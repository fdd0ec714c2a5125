# Creates a tree with one violation of every rule and expects check_rooms.cmake to report exactly these.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})
file(WRITE ${SCRATCH}/CONTRIBUTING.md
     "| room | may include | contents |\n| --- | --- | --- |\n"
     "| `include/tp` | | public; headers |\n"
     "| `parallel` | | [sums] |\n"
     "| `model/kernels` | | products |\n"
     "| `model/layers` | memory | memory comes below |\n"
     "| `model/memory` | kernels | caches |\n"
     "| `runtime/cache` | model/layers | blocks |\n"
     "| `runtime/step` | cache | steps |\n"
     "| `runtime/other` | model model/kernels | a layer, and a room without an include |\n"
     "| `runtime/empty` | launch | a layer that comes below |\n"
     "| `launch` | runtime/step | the program |\n")
file(WRITE ${SCRATCH}/include/tp/mpi.h "#include \"tp/tensor.h\"\n#include <mpi.h>\n")
file(WRITE ${SCRATCH}/include/tp/tensor.h "#include \"parallel/shard.h\"\n")
file(WRITE ${SCRATCH}/parallel/shard.cc "#include \"parallel/shard.h\"\n#include <mpi.h>\n#include \"model/memory/buffer.h\"\n")
file(WRITE ${SCRATCH}/model/kernels/matmul.cc "#include \"parallel/shard.h\"\n#include \"model/kernels/half.h\"\n")
file(WRITE ${SCRATCH}/model/layers/mlp.cc "#include \"mlp.h\"\n#include \"../runtime/step.h\"\n#include <vector>\n")
file(WRITE ${SCRATCH}/model/memory/buffer.h "#include \"model/kernels/half.h\"\n  #  include <mpi.h>\n")
file(WRITE ${SCRATCH}/model/spec.h "#include \"tp/tensor.h\"\n")
file(WRITE ${SCRATCH}/runtime/cache/blocks.h "#include \"runtime/step/worker.h\"\n#include \"model/layers/mlp.h\"\n")
file(WRITE ${SCRATCH}/runtime/step/worker.h "#include \"launch/main.h\"\n#include \"runtime/cache/blocks.h\"\n")
file(WRITE ${SCRATCH}/runtime/other/leader.h "#include \"model/memory/buffer.h\"\n")
file(WRITE ${SCRATCH}/launch/main.cc "#include \"runtime/step/worker.h\"\n#include \"tests/x.h\"\n")
file(WRITE ${SCRATCH}/tests/forgotten_test.cc "")
file(WRITE ${SCRATCH}/tests/model/case.h "")
file(WRITE ${SCRATCH}/tests/model/layers/case.h "")
file(WRITE ${SCRATCH}/tests/unbuilt_test.cc "")
file(WRITE ${SCRATCH}/compile_commands.json
     "[{\"file\": \"${SCRATCH}/parallel/shard.cc\"}, {\"file\": \"${SCRATCH}/model/layers/mlp.cc\"},"
     " {\"file\": \"${SCRATCH}/model/kernels/matmul.cc\"}, {\"file\": \"${SCRATCH}/launch/main.cc\"}]")
execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${SCRATCH} -D COMPILED=${SCRATCH}/compile_commands.json
                        -D UNBUILT=tests/unbuilt_test.cc
                        -P ${CMAKE_CURRENT_LIST_DIR}/check_rooms.cmake
                RESULT_VARIABLE status ERROR_VARIABLE text)
if(status EQUAL 0)
  message(FATAL_ERROR "no violation was detected")
endif()
set(expected
    "model/layers may include memory"
    "runtime/other may include model"
    "runtime/other may include model/kernels, but includes nothing of it"
    "runtime/other/leader.h includes \"model/memory/buffer.h\""
    "runtime/empty may include launch"
    "runtime/empty has no file"
    "include/tp/tensor.h includes \"parallel/shard.h\""
    "parallel/shard.cc includes \"model/memory/buffer.h\""
    "model/kernels/matmul.cc includes \"parallel/shard.h\""
    "model/layers/mlp.cc includes \"mlp.h\""
    "model/layers/mlp.cc includes \"../runtime/step.h\""
    "model/memory/buffer.h includes <mpi.h>"
    "model/spec.h is in no room"
    "runtime/cache/blocks.h includes \"runtime/step/worker.h\""
    "runtime/step/worker.h includes \"launch/main.h\""
    "launch/main.cc includes \"tests/x.h\""
    "tests/model/case.h tests no room"
    "tests/forgotten_test.cc is in no target")
foreach(violation IN LISTS expected)
  string(FIND "${text}" "${violation}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "not detected: ${violation}\nin:\n${text}")
  endif()
endforeach()
list(LENGTH expected expected_count)
string(FIND "${text}" "is not kept: ${expected_count} violations" place)
if(place EQUAL -1)
  message(FATAL_ERROR "expected ${expected_count} violations, found others:\n${text}")
endif()
