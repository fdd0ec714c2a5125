# Writes files with comments that open badly, and expects check_prose.awk to report exactly these lines.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})
file(WRITE ${SCRATCH}/source.cc [=[
// What a file is.
int a;  // of a value
int b;  // seconds, of which none is negative

// The value of a
// where b is 1.
//
// Those that follow an empty line.
const char* c = "// of a text";
]=])
file(WRITE ${SCRATCH}/page.js "/* The same */\n/** Where it is. */\nconst officer = 1; // [that many]\n")
file(WRITE ${SCRATCH}/page.css "/* Of the page */\n/* The page */\n")
file(WRITE ${SCRATCH}/script.py "\"\"\"What a script does.\"\"\"\n# Where it begins\nx = 1  # those\n\"\"\"Often\"\"\"\n")
file(WRITE ${SCRATCH}/folder/script "#!/bin/sh\n# That a script begins\necho  # what\n")
file(WRITE ${SCRATCH}/CMakeLists.txt "# Of CMake\nset(a)  # the same\n")
file(WRITE ${SCRATCH}/guide.md [=[
# What a heading may say

The first paragraph
of the guide.

Where a paragraph begins.
- What an item says
- An item
1. Of numbers

```
What a block contains
```
| What a table contains |
]=])
execute_process(COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/check_prose.awk source.cc page.js page.css script.py folder/script
                        CMakeLists.txt guide.md
                WORKING_DIRECTORY ${SCRATCH} RESULT_VARIABLE status OUTPUT_VARIABLE text)
string(REGEX MATCHALL "[^\n]+:[0-9]+: opens with" found "${text}")
string(REPLACE ": opens with" "" found "${found}")
set(expected source.cc:1 source.cc:2 source.cc:8 page.js:1 page.js:2 page.js:3 page.css:1 script.py:1 script.py:2 script.py:3
             folder/script:2 folder/script:3 CMakeLists.txt:1 CMakeLists.txt:2 guide.md:6 guide.md:7 guide.md:9)
if(NOT found STREQUAL expected OR NOT status EQUAL 1)
  message(FATAL_ERROR "expected status 1 and\n${expected}\nfound status ${status} and\n${found}\nin:\n${text}")
endif()
