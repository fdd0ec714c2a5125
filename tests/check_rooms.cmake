# Checks every #include of the tree ROOT against the table of rooms in ROOT/CONTRIBUTING.md, and prints what violates it.
#
#   | room | may include | contents |
#   | `runtime/step` | parallel/exchange model/layers cache protocol | ... |
#
# A room is a folder. It may include itself, include/tp, and what its row lists: rooms of its own layer, by their names
# within it, and rooms of other layers, by their whole names. Rows are sorted: each lists only rooms above it, so that
# there can be no circle. A row lists no room that the room's files do not include. A room has at most 60 files, except
# that of families, which has one for each. <mpi.h> appears under parallel/ and in include/tp/mpi.h only.
#
# Tests are in folders like those of the rooms that they test.
#
# With COMPILED, a compile_commands.json, the script also checks that every source file is built: a test that is not in
# the build proves nothing. UNBUILT lists the sources that need a package which is not installed.
cmake_minimum_required(VERSION 3.25)
set(violations 0)

macro(violation text)
  message("${text}")
  math(EXPR violations "${violations} + 1")
endmacro()

# The table: `rooms`, and for each of them allowed_<room>, the rooms that it may include.
set(rooms "")
file(STRINGS ${ROOT}/CONTRIBUTING.md rows REGEX "^\\| `(include|parallel|model|runtime|launch)[a-z_/]*` \\|")
foreach(row IN LISTS rows)
  string(REGEX MATCH "^\\| `([a-z_/]+)` \\| ([a-z_/ ]*)\\|" row "${row}")
  set(room ${CMAKE_MATCH_1})
  string(REPLACE " " ";" names "${CMAKE_MATCH_2}")
  string(REGEX MATCH "^[a-z]+" layer ${room})
  set(allowed_${room} ${room})
  foreach(name ${names})
    if("${layer}/${name}" IN_LIST rooms)
      list(APPEND allowed_${room} ${layer}/${name})
    elseif(name IN_LIST rooms)
      list(APPEND allowed_${room} ${name})
    else()
      violation("CONTRIBUTING.md: ${room} may include ${name}; expected a room of ${layer} without its layer's name, or the whole name of another layer's room, above its row")
    endif()
  endforeach()
  if(room IN_LIST rooms)
    violation("CONTRIBUTING.md: ${room} has two rows")
  endif()
  list(APPEND rooms ${room})
endforeach()

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/include/*.h ${ROOT}/include/*.in
     ${ROOT}/parallel/*.h ${ROOT}/parallel/*.cc ${ROOT}/model/*.h ${ROOT}/model/*.cc
     ${ROOT}/runtime/*.h ${ROOT}/runtime/*.cc ${ROOT}/launch/*.h ${ROOT}/launch/*.cc)
foreach(file ${files})
  get_filename_component(room ${file} DIRECTORY)
  if(NOT room IN_LIST rooms)
    violation("${file} is in no room: add ${room} to the table in CONTRIBUTING.md")
    continue()
  endif()
  math(EXPR files_${room} "0${files_${room}} + 1")
  file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include")
  foreach(line ${includes})
    if(line MATCHES "<mpi\\.h>" AND NOT file MATCHES "^parallel/" AND NOT file STREQUAL "include/tp/mpi.h")
      violation("${file} includes <mpi.h>; only parallel/ and include/tp/mpi.h may")
    endif()
    if(NOT line MATCHES "\"([^\"]*)\"")
      continue()
    endif()
    set(included ${CMAKE_MATCH_1})
    if(NOT included MATCHES "/" OR included MATCHES "\\.\\./")
      violation("${file} includes \"${included}\"; write the path from the top of the tree")
      continue()
    endif()
    get_filename_component(from ${included} DIRECTORY)
    string(REGEX MATCH "^[a-z]+" layer "${from}")
    if(layer STREQUAL tp OR from IN_LIST allowed_${room})
      list(APPEND used_${room} ${from})
      continue()
    endif()
    string(REPLACE ";" ", " allowed "${allowed_${room}}")
    violation("${file} includes \"${included}\"; ${room} may include tp, ${allowed}")
  endforeach()
endforeach()

# Tests of a layer are in a folder that a room of the layer has, too.
file(GLOB_RECURSE tests RELATIVE ${ROOT}/tests ${ROOT}/tests/parallel/*.h ${ROOT}/tests/parallel/*.cc ${ROOT}/tests/model/*.h
     ${ROOT}/tests/model/*.cc ${ROOT}/tests/runtime/*.h ${ROOT}/tests/runtime/*.cc ${ROOT}/tests/launch/*.h ${ROOT}/tests/launch/*.cc)
list(FILTER tests EXCLUDE REGEX "^parallel/must_not_compile/")
foreach(test ${tests})
  get_filename_component(room ${test} DIRECTORY)
  if(NOT room IN_LIST rooms)
    violation("tests/${test} tests no room: move it to the folder of the room that it tests")
  endif()
endforeach()

foreach(room ${rooms})
  if(NOT files_${room})
    violation("CONTRIBUTING.md: ${room} has no file")
  elseif(files_${room} GREATER 60 AND NOT room STREQUAL "model/config/families")
    violation("${room} has ${files_${room}} files: expected at most 60; divide it")
  endif()
  foreach(name ${allowed_${room}})
    if(NOT name STREQUAL room AND NOT name IN_LIST used_${room})
      violation("CONTRIBUTING.md: ${room} may include ${name}, but includes nothing of it; remove this")
    endif()
  endforeach()
endforeach()

if(COMPILED)
  file(READ ${COMPILED} compiled)
  # With TP_UNITY, files that include some sources each are compiled.
  get_filename_component(build ${COMPILED} DIRECTORY)
  file(GLOB_RECURSE batches ${build}/unity_*_cxx.cxx)
  foreach(batch ${batches})
    file(READ ${batch} included)
    string(APPEND compiled "${included}")
  endforeach()
  file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/parallel/*.cc ${ROOT}/model/*.cc ${ROOT}/runtime/*.cc
       ${ROOT}/launch/*.cc ${ROOT}/tests/*.cc)
  foreach(source ${sources})
    if(source IN_LIST UNBUILT)
      continue()
    endif()
    string(FIND "${compiled}" "\"file\": \"${ROOT}/${source}\"" place)
    string(FIND "${compiled}" "#include \"${ROOT}/${source}\"" place_in_batch)
    if(place EQUAL -1 AND place_in_batch EQUAL -1 AND NOT source MATCHES "/(must_not_compile/|fuzz/|sanitizer_defaults)")
      violation("${source} is in no target: add it to a CMakeLists.txt")
    endif()
  endforeach()
endif()

list(LENGTH files checked)
if(checked EQUAL 0)
  message(FATAL_ERROR "found no files in ${ROOT}")
endif()
if(violations)
  message(FATAL_ERROR "the table of rooms is not kept: ${violations} violations")
endif()
list(LENGTH rooms checked_rooms)
message("checked ${checked} files in ${checked_rooms} rooms")
