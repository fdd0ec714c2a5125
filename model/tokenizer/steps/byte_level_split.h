#pragma once

#include "model/tokenizer/steps/split.h"

#include <optional>

namespace tp {

// Cuts a text into words, numbers, and runs of other characters, each with a preceding space.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The pre-tokenizer "ByteLevel": optionally cuts each piece into words by GPT-2's pattern, and converts the
// bytes to the byte-level alphabet.
class ByteLevelSplit {
 public:
  // `add_prefix_space`: adds a space to each piece that does not begin with a space.
  ByteLevelSplit(bool add_prefix_space, bool split_words);

  void operator()(PreTokens& tokens) const;

 private:
  bool add_prefix_space_;
  std::optional<Split> words_;
};

}  // namespace tp
