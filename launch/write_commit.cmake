# Writes the header OUTPUT with the commit of SOURCE, which `--version` shows, unless it is unchanged. The commit is empty
# without a repository, as in a release archive. Run by every build.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=9 HEAD OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\n\ninline constexpr const char* kCommit = \"${commit}\";\n")
