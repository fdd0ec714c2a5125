# No class, inline function or variable of namespace tp is defined twice, and a test that the check detects such definitions.
file(GLOB_RECURSE TP_DEFINING_SOURCES RELATIVE ${PROJECT_SOURCE_DIR}
     ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/parallel/*.h ${PROJECT_SOURCE_DIR}/parallel/*.cc
     ${PROJECT_SOURCE_DIR}/model/*.h ${PROJECT_SOURCE_DIR}/model/*.cc ${PROJECT_SOURCE_DIR}/runtime/*.h
     ${PROJECT_SOURCE_DIR}/runtime/*.cc ${PROJECT_SOURCE_DIR}/launch/*.h ${PROJECT_SOURCE_DIR}/launch/*.cc
     ${PROJECT_SOURCE_DIR}/tests/*.h ${PROJECT_SOURCE_DIR}/tests/*.cc ${PROJECT_SOURCE_DIR}/bench/*.h
     ${PROJECT_SOURCE_DIR}/bench/*.cc)
# A build compiles either this file or those that it replaces.
list(REMOVE_ITEM TP_DEFINING_SOURCES launch/hub/no_network.cc)
add_test(NAME Definitions.are_unique_in_namespace_tp
         COMMAND awk -f ${CMAKE_CURRENT_SOURCE_DIR}/check_definitions.awk ${TP_DEFINING_SOURCES}
         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
add_test(NAME Definitions.check_notices_every_violation
         COMMAND ${CMAKE_COMMAND} -D SCRATCH=${CMAKE_CURRENT_BINARY_DIR}/check_definitions_violations
                 -P ${CMAKE_CURRENT_SOURCE_DIR}/check_definitions_violations.cmake)
set_tests_properties(Definitions.are_unique_in_namespace_tp Definitions.check_notices_every_violation
                     PROPERTIES LABELS unit)
