#pragma once

#include "model/tokenizer/text/token_type.h"
#include "tp/token_id.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tp {

// The contents of a tokenizer.model.
struct SentencePieceFile {
  // The numbers are used in the file.
  enum class Algorithm : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

  struct Piece {
    std::string text;
    float score = 0;
    TokenType type = TokenType::normal;
  };

  Algorithm algorithm = Algorithm::unigram;
  std::vector<Piece> pieces{};  // by id
  bool byte_fallback = false;
  std::optional<TokenId> bos{};
  std::optional<TokenId> eos{};
  TokenId unknown = 0;

  // Normalization of texts.
  std::string character_map{};  // see PrecompiledMap; empty: no map
  bool adds_space = true;       // adds a space before the text
  bool space_behind = false;    // adds the space after the text instead
  bool collapses_spaces = true;
  bool marks_spaces = true;  // spaces become U+2581

  // The library's processor for the file.
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor{};
};

// Reads the content of a tokenizer.model. `path`: the file's, for errors. Throws CheckpointError for a file
// that the SentencePiece library refuses, or that would lead it outside of its memory.
SentencePieceFile read_sentencepiece(std::string_view content, const std::filesystem::path& path);

}  // namespace tp
