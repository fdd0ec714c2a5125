# The layering of DESIGN section 2, and a test that the check detects violations.
get_property(unbuilt GLOBAL PROPERTY TP_UNBUILT_SOURCES)
add_test(NAME Layers.are_kept_and_every_source_is_built
         COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D COMPILED=${PROJECT_BINARY_DIR}/compile_commands.json
                 -D "UNBUILT=${unbuilt}" -P ${CMAKE_CURRENT_SOURCE_DIR}/check_layers.cmake)
add_test(NAME Layers.check_notices_every_violation
         COMMAND ${CMAKE_COMMAND} -D SCRATCH=${CMAKE_CURRENT_BINARY_DIR}/check_layers_violations
                 -P ${CMAKE_CURRENT_SOURCE_DIR}/check_layers_violations.cmake)
set_tests_properties(Layers.are_kept_and_every_source_is_built Layers.check_notices_every_violation
                     PROPERTIES LABELS unit)
