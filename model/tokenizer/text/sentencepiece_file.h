#pragma once

#include "model/tokenizer/text/token_type.h"
#include "tp/token_id.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tp {

// What a tokenizer.model says.
struct SentencePieceFile {
  // The numbers are those of the file.
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

  // How texts are normalized.
  std::string character_map{};  // see PrecompiledMap; empty: none
  bool adds_space = true;       // as if a space were before the text
  bool space_behind = false;    // or rather behind it
  bool collapses_spaces = true;
  bool marks_spaces = true;  // spaces become U+2581

  // The library's own reading of the file.
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor{};
};

// Throws CheckpointError for a file that the SentencePiece library refuses.
SentencePieceFile read_sentencepiece_file(const std::filesystem::path& file);

}  // namespace tp
