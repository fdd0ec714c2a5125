# Checks the layering of DESIGN section 2 in the tree ROOT and prints every violation:
#
#   include/tp  <-  parallel  <-  model  <-  runtime  <-  launch
#
# A file includes its own folder and folders to its left; <mpi.h> appears under parallel/ and in
# include/tp/mpi.h only; model/kernels does not include parallel/. With COMPILED, a compile_commands.json, it
# also checks that every source file is built: a test that is not in the build proves nothing. UNBUILT lists the
# sources that need a package which is not installed.
cmake_minimum_required(VERSION 3.25)
set(layers parallel model runtime launch)
set(violations "")

function(violation text)
  message("${text}")
  set(violations "${violations}x" PARENT_SCOPE)
endfunction()

# Sets `out` to the folders that `file` may include, tp (include/tp) among them.
function(folders_left_of file out)
  set(allowed tp)
  string(REGEX MATCH "^[^/]+" own "${file}")
  foreach(layer ${layers})
    if(own STREQUAL include)
      break()
    endif()
    list(APPEND allowed ${layer})
    if(layer STREQUAL own)
      break()
    endif()
  endforeach()
  if(file MATCHES "^model/kernels/")
    list(REMOVE_ITEM allowed parallel)
  endif()
  set(${out} ${allowed} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/include/*.h ${ROOT}/include/*.in
     ${ROOT}/parallel/*.h ${ROOT}/parallel/*.cc ${ROOT}/model/*.h ${ROOT}/model/*.cc
     ${ROOT}/runtime/*.h ${ROOT}/runtime/*.cc ${ROOT}/launch/*.h ${ROOT}/launch/*.cc)
foreach(file ${files})
  folders_left_of(${file} allowed)
  file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include")
  foreach(line ${includes})
    if(line MATCHES "<mpi\\.h>" AND NOT file MATCHES "^parallel/" AND NOT file STREQUAL "include/tp/mpi.h")
      violation("${file} includes <mpi.h>; only parallel/ and include/tp/mpi.h may")
    endif()
    if(NOT line MATCHES "\"([^\"]*)\"")
      continue()
    endif()
    set(included ${CMAKE_MATCH_1})
    string(REGEX MATCH "^[^/]+" folder "${included}")
    if(NOT included MATCHES "/" OR included MATCHES "\\.\\./")
      violation("${file} includes \"${included}\"; write the path from the top of the tree")
    elseif(NOT folder IN_LIST allowed)
      string(REPLACE ";" ", " allowed_text "${allowed}")
      violation("${file} includes \"${included}\"; it may include ${allowed_text}")
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
  message(FATAL_ERROR "the layers are not kept")
endif()
message("checked ${checked} files")
