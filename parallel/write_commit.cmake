# Writes the header OUTPUT with the commit of SOURCE, unless it is unchanged. If the library's sources have uncommitted
# changes, a hash of the changes follows. The commit is "unknown" without a repository, as in a release archive. Run by
# every build.
function(run_git result output)
  execute_process(COMMAND git -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE status)
  set(${result} ${status} PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

# A folder that was unpacked inside another repository is not tracked by it.
run_git(is_foreign ignored ls-files --error-unmatch -- CMakeLists.txt)
run_git(status commit rev-parse --short=9 HEAD)
if(NOT is_foreign EQUAL 0 OR NOT status EQUAL 0)
  set(commit unknown)
else()
  # Changes elsewhere do not change results, and would make every build link all tests.
  run_git(status changes diff --no-ext-diff --no-color HEAD -- include parallel model runtime)
  if(NOT "${changes}" STREQUAL "")
    string(SHA1 hash "${changes}")
    string(SUBSTRING ${hash} 0 8 hash)
    string(APPEND commit +${hash})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\n\ninline constexpr const char* kCommit = \"${commit}\";\n")
