#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/steps/decoder_parts.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

// Converts a stream of tokens' texts to text. The result is well-formed UTF-8 in whole characters if the
// tokens are. Copies are independent: a tokenizer keeps one unused decoder, and each stream begins with a
// copy of it.
class TokenDecoder {
 public:
  // The default decoder: joins tokens with spaces.
  TokenDecoder() : parts_{JoinWithSpaces()} {}

  // SentencePiece's decoder: converts U+2581 to spaces and <0xNN> to bytes. `strips_space`: removes the space
  // at the beginning of the text.
  static TokenDecoder sentencepiece(bool strips_space);

  // Converts the byte-level alphabet to bytes.
  static TokenDecoder byte_level();

  // BERT's decoder: writes a space before each token, except punctuation and tokens that continue a word
  // ("##ing").
  static TokenDecoder word_piece();

  // `json`: the value of "decoder". Throws CheckpointError.
  static TokenDecoder from_json(const JsonNode& json);

  // Appends the text that the next token makes final. The time depends on the token's length, not the text's.
  void push(std::string_view token, std::string& out);

  // Appends the text of all tokens so far, but keeps the beginning of an unfinished character.
  void flush(std::string& out);

  // Appends the rest. No more tokens may follow.
  void finish(std::string& out);

  // The bytes that a token adds amid other tokens. They need not be whole characters.
  std::string bytes_of(std::string_view token) const;

 private:
  explicit TokenDecoder(std::vector<DecoderPart> parts) : parts_(std::move(parts)) {}

  template <class End>
  void run(TokenTexts tokens, std::string& out, End&& end);

  std::vector<DecoderPart> parts_;
};

}  // namespace tp
