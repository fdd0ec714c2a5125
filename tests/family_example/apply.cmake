# Copies the files that DIFF changes from SOURCE to OUTPUT, and applies it there. FILES: all files of the diff.
foreach(file ${FILES})
  get_filename_component(folder ${OUTPUT}/${file} DIRECTORY)
  file(REMOVE ${OUTPUT}/${file})
  if(EXISTS ${SOURCE}/${file})
    file(COPY ${SOURCE}/${file} DESTINATION ${folder})
  endif()
endforeach()
find_program(PATCH patch REQUIRED)
execute_process(COMMAND ${PATCH} --strip=1 --fuzz=0 --no-backup-if-mismatch --input=${DIFF} --directory=${OUTPUT}
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${DIFF} does not apply; adapt it to the changes of its files")
endif()
