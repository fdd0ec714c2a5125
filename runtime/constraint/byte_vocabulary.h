// The bytes of a model's tokens.
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/token_trie.h"
#include "tp/token_id.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp::constraint {

// The bytes of a control token are control_text(), which a grammar contains only if it names the token.
// Tokens that end a text have no bytes.
class ByteVocabulary {
 public:
  // `vocab_size`: the model's size, which may exceed the tokenizer's. `ends`: tokens that end a text.
  // `tokenizer` must outlive this object.
  ByteVocabulary(const Tokenizer& tokenizer, std::size_t vocab_size, std::span<const TokenId> ends);

  std::size_t size() const { return bytes_.size(); }
  // Empty for tokens that match nothing.
  std::string_view bytes(TokenId id) const { return bytes_.at(static_cast<std::size_t>(id)); }
  const TokenTrie& trie() const { return trie_; }

  // A part of a text that may contain control tokens. Tokens that end a text are left out.
  struct Part {
    std::string text{};
    std::optional<TokenId> control{};  // the control token with this text
  };
  std::vector<Part> parts_of(std::string_view text) const;

  // The tokenizer's tokens for a text that follows other text. Empty if no token begins where the text
  // begins.
  std::vector<TokenId> encode_after_text(std::string_view text) const;

 private:
  const Tokenizer* tokenizer_;
  std::vector<std::string> bytes_;
  TokenTrie trie_;
};

}  // namespace tp::constraint
