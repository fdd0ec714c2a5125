#pragma once

#include "model/tokenizer/steps/precompiled_map.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "model/tokenizer/text/string_set.h"

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// SentencePiece's normalization: characters are replaced by its map, apart from user-defined tokens, spaces
// are stripped and collapsed, one is put before the text, and all become U+2581, as the model's file says.
class SentencePieceNormalizer {
 public:
  // Throws CheckpointError for a map that is none; `source` names the file.
  SentencePieceNormalizer(const SentencePieceFile& file, const std::string& source);

  // `text` is well-formed UTF-8.
  std::string operator()(std::string_view text) const;

 private:
  // What the beginning of a text becomes, and how much of it.
  struct Step {
    std::string_view text;
    std::size_t length;
  };

  Step first_step(std::string_view text) const;
  std::size_t leading_spaces(std::string_view text) const;

  std::optional<PrecompiledMap> map_;
  StringSet user_defined_;
  std::string_view space_;
  bool adds_space_;
  bool space_behind_;
  bool collapses_spaces_;
};

}  // namespace tp
