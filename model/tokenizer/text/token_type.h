#pragma once

#include <cstdint>

namespace tp {

// The purpose of a token. The numbers are SentencePiece's and GGUF's.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,       // stands for text without a token
  control = 3,       // such as BOS; left out of decoded text
  user_defined = 4,  // found in the unprocessed text
  unused = 5,        // fills up the vocabulary
  byte = 6,          // <0xNN>
};

}  // namespace tp
