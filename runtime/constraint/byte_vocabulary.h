// What the tokens of a model are as bytes.
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

// The bytes of control tokens are what control_text() says, which a grammar contains only where it names
// them. The ends of a text have no bytes at all.
class ByteVocabulary {
 public:
  // `vocab_size`: the model's, which may be larger than the tokenizer's. `ends`: the tokens that end a text.
  // `tokenizer` must outlive it.
  ByteVocabulary(const Tokenizer& tokenizer, std::size_t vocab_size, std::span<const TokenId> ends);

  std::size_t size() const { return bytes_.size(); }
  // Empty for tokens that match nothing.
  std::string_view bytes(TokenId id) const { return bytes_.at(static_cast<std::size_t>(id)); }
  const std::vector<std::string>& all() const { return bytes_; }
  const TokenTrie& trie() const { return trie_; }

  // A text that may contain control tokens, in which the ends of a text are left out.
  struct Part {
    std::string text{};
    std::optional<TokenId> control{};  // whose text this is
  };
  std::vector<Part> parts_of(std::string_view text) const;

  // The tokens of a text that follows other text, as the tokenizer has them; none if the tokenizer has them
  // otherwise at the beginning of a text and the text cannot be cut there.
  std::vector<TokenId> tokens_of(std::string_view text) const;

 private:
  const Tokenizer* tokenizer_;
  std::vector<std::string> bytes_;
  TokenTrie trie_;
};

}  // namespace tp::constraint
