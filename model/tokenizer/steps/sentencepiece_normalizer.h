#pragma once

#include "model/tokenizer/text/precompiled_map.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "model/tokenizer/text/string_set.h"

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// SentencePiece's normalization, as configured in the model's file: replaces characters by the map, except in
// user-defined tokens, strips and collapses spaces, adds a space to the text, and converts spaces to U+2581.
class SentencePieceNormalizer {
 public:
  // Throws CheckpointError for an invalid map. `source` names the file.
  SentencePieceNormalizer(const SentencePieceFile& file, const std::string& source);

  // `text` must be well-formed UTF-8.
  std::string operator()(std::string_view text) const;

 private:
  // The replacement for the beginning of a text, and the length of that beginning.
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
