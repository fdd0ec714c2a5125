# Included by runtime/CMakeLists.txt.
add_library(tp_detokenizer STATIC ${CMAKE_CURRENT_LIST_DIR}/detokenizer.cc)
target_link_libraries(tp_detokenizer PUBLIC tp_options tp_tokenizer)
