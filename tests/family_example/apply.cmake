# Copies the files that DIFF changes from SOURCE to OUTPUT, and applies it there. FILES: all that it leaves.
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
  message(FATAL_ERROR "${DIFF} does not apply; change it as the files it is for have changed")
endif()
