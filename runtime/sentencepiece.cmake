# Defines tp::sentencepiece. SentencePiece is found by its header and its library, because Debian 13's sentencepiece.pc
# requires protobuf-lite, which the development package doesn't depend on.
if(NOT TARGET tp::sentencepiece)
  find_path(TP_SENTENCEPIECE_INCLUDE sentencepiece_processor.h REQUIRED)
  find_library(TP_SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
  mark_as_advanced(TP_SENTENCEPIECE_INCLUDE TP_SENTENCEPIECE_LIBRARY)
  add_library(tp::sentencepiece UNKNOWN IMPORTED)
  set_target_properties(tp::sentencepiece PROPERTIES IMPORTED_LOCATION ${TP_SENTENCEPIECE_LIBRARY}
                                                     INTERFACE_INCLUDE_DIRECTORIES ${TP_SENTENCEPIECE_INCLUDE})
endif()
