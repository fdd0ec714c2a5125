#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/steps/decoder_parts.h"

#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Makes text of the texts of tokens, which come one at a time. What it gives is well-formed UTF-8 in whole
// characters, if the tokens are. A copy goes on by itself: a tokenizer keeps one decoder that no token has
// been pushed to, and every stream begins as a copy of it.
class TokenDecoder {
 public:
  // The decoder of a tokenizer that has none: tokens with spaces between them.
  TokenDecoder() : parts_{JoinWithSpaces()} {}

  // SentencePiece's: U+2581 to spaces, <0xNN> to bytes. `strips_space`: not the one that the text begins
  // with.
  static TokenDecoder sentencepiece(bool strips_space);

  // BERT's: a space before every token that does not go on with a word ("##ing") and is no punctuation.
  static TokenDecoder word_piece();

  // `json`: the value of "decoder". Throws CheckpointError.
  static TokenDecoder from_json(const JsonNode& json);

  // Appends the text that the next token makes certain. Takes time in the length of the token, not of the
  // text.
  void push(std::string_view token, std::string& out);

  // Appends the text of the tokens so far as if no more came, but keeps the beginning of an unfinished
  // character.
  void settle(std::string& out);

  // Appends the rest. No token may follow.
  void finish(std::string& out);

  // The bytes that a token adds to a text amid other tokens, which need not be whole characters.
  std::string bytes_of(std::string_view token) const;

 private:
  template <class End>
  void run(TokenTexts tokens, std::string& out, End&& end);

  std::vector<DecoderPart> parts_;
};

}  // namespace tp
