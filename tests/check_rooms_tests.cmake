# The walls between rooms, which the table in CONTRIBUTING.md has, and a test that the check detects violations.
get_property(unbuilt GLOBAL PROPERTY TP_UNBUILT_SOURCES)
add_test(NAME Rooms.have_walls_and_every_source_is_built
         COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D COMPILED=${PROJECT_BINARY_DIR}/compile_commands.json
                 -D "UNBUILT=${unbuilt}" -P ${CMAKE_CURRENT_SOURCE_DIR}/check_rooms.cmake)
add_test(NAME Rooms.check_notices_every_violation
         COMMAND ${CMAKE_COMMAND} -D SCRATCH=${CMAKE_CURRENT_BINARY_DIR}/check_rooms_violations
                 -P ${CMAKE_CURRENT_SOURCE_DIR}/check_rooms_violations.cmake)
set_tests_properties(Rooms.have_walls_and_every_source_is_built Rooms.check_notices_every_violation
                     PROPERTIES LABELS unit)
