#pragma once

#include <cstdint>

namespace tp {

// What a token is for; the numbers are those of SentencePiece and GGUF.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,       // stands for what has no token
  control = 3,       // such as BOS; left out of decoded text
  user_defined = 4,  // found in the text as it stands
  unused = 5,        // fills the vocabulary up
  byte = 6,          // <0xNN>
};

}  // namespace tp
