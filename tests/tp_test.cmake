# tp_test(NAME sources... [LIBS targets...] [RANKS 1 2 3 4] [SHARDS n] [LABELS label...])
#
# One GoogleTest program. Without RANKS it is a plain process and one CTest test, or SHARDS tests named NAME/1 to NAME/n
# that divide its TESTs. With TP_DISCOVER_TESTS every TEST is a CTest test instead. With RANKS mpirun starts the program
# once for each rank count, as one CTest test named NAME@ranks. Collectives, fixtures and same bits are tested at 1 to 8
# ranks, layers and the engine at 1 to 4, others at 2 and 3; TP_EVERYTHING adds 1 and 4.
include(GoogleTest)
option(TP_DISCOVER_TESTS "Make every TEST of a plain program a test of CTest: slower, but each has a process of its own" OFF)

# MPICH starts more ranks than cores without being asked.
if(MPI_CXX_INCLUDE_DIRS MATCHES "mpich")
  set(TP_MPIRUN ${MPIEXEC_EXECUTABLE} -bind-to none)
else()
  set(TP_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
endif()

# Hashes of the fixtures' files, which tests must not add to the user's.
set(TP_TEST_CACHE XDG_CACHE_HOME=${CMAKE_CURRENT_BINARY_DIR}/cache)

# One thread per rank, but two for the thread sanitizer, which finds nothing with one.
set(TP_MPI_TEST_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
                            ${TP_TEST_CACHE} OMP_NUM_THREADS=$<IF:$<BOOL:${TP_SANITIZE_THREADS}>,2,1>)

function(tp_add_plain_test name labels shards)
  if(TP_DISCOVER_TESTS)
    # An empty value would be dropped, and the next property's name taken for it.
    if(labels)
      set(labels LABELS ${labels})
    endif()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES ${labels} TIMEOUT ${TP_TEST_TIMEOUT}
                         ENVIRONMENT OMP_NUM_THREADS=2)
    return()
  endif()
  if(NOT shards)
    set(shards 1)
  endif()
  # clang 14's leak checker itself crashes after about one in a hundred programs that used MPI. Tests that start no programs
  # check the same code for leaks.
  set(sanitizer_options "")
  if(TP_SANITIZE AND "${labels}" MATCHES "launch|serve")
    set(sanitizer_options ASAN_OPTIONS=detect_leaks=0)
  endif()
  foreach(shard RANGE 1 ${shards})
    set(test ${name})
    if(shards GREATER 1)
      set(test ${name}/${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT 1200
      ENVIRONMENT "OMP_NUM_THREADS=2;${TP_TEST_CACHE};GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index};${sanitizer_options}")
  endforeach()
endfunction()

function(tp_test name)
  cmake_parse_arguments(ARG "" "SHARDS" "LIBS;RANKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest)
  target_precompile_headers(${name} REUSE_FROM tp_test_headers)
  target_compile_definitions(${name} PRIVATE TP_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
                                             TP_SHARED_FIXTURES="${PROJECT_SOURCE_DIR}/../shared/fixtures")
  if(NOT ARG_RANKS)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    tp_add_plain_test(${name} "${ARG_LABELS}" "${ARG_SHARDS}")
    return()
  endif()
  target_link_libraries(${name} PRIVATE tp_mpi_test_main)
  if(TP_EVERYTHING)
    list(APPEND ARG_RANKS 1 4)
    list(REMOVE_DUPLICATES ARG_RANKS)
  endif()
  foreach(ranks ${ARG_RANKS})
    set(processors 2)
    if(ranks EQUAL 1)
      set(processors 1)
    endif()
    add_test(NAME ${name}@${ranks} COMMAND ${TP_MPIRUN} -np ${ranks} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}@${ranks} PROPERTIES LABELS "mpi;${ARG_LABELS}" TIMEOUT ${TP_TEST_TIMEOUT} PROCESSORS ${processors}
      ENVIRONMENT "${TP_MPI_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
