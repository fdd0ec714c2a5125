#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/text/span.h"
#include "model/tokenizer/text/string_set.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/marked_text.h"
#include "tp/token_id.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tp {

// A token that is found in the unprocessed text, before all other steps.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;        // control token, which SkipSpecial omits
  bool lstrip = false;         // includes white space on its left
  bool rstrip = false;         // includes white space on its right
  bool single_word = false;    // does not match inside a word
  bool normalized = false;     // matches its normalized form in the normalized text
  bool named_special = false;  // named special by the configuration, but without the flag
  bool reserved = false;       // stands for the token that the configuration may name for this id

  // Whether input cannot write the token. Other added tokens, such as runs of spaces or <think>, are text
  // with a token of its own. Some checkpoints forget the flag of turn markers. Their names in the
  // configuration or their shape (<|im_start|>) identify them.
  bool is_control() const;

  bool operator==(const AddedToken&) const = default;
};

// Reads a token's "content" and flags. Throws CheckpointError.
AddedToken added_token_from_json(const JsonNode& json, TokenId id);

// Replaces the flags lstrip, rstrip, single_word and normalized by those that `json` has.
void read_flags(const JsonNode& json, AddedToken& token);

// Collects added tokens from several lists. If the lists disagree, the `tokenizers` library decides: a token
// that the vocabulary or an earlier list has keeps its id and gets the new flags. An unknown token whose id
// belongs to another token gets the next free id.
class AddedTokenList {
 public:
  // `vocabulary`: the model's vocabulary, which must outlive the list. `known`: the tokens so far.
  explicit AddedTokenList(const Vocabulary& vocabulary, const std::vector<AddedToken>& known = {});

  // Tokens without content are left out. Throws CheckpointError at `place` if the token is too long.
  void add(const JsonNode& place, AddedToken token);
  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  TokenId id_for(const AddedToken& token) const;
  void put(AddedToken token);

  const Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;  // indices into tokens_
  std::unordered_map<TokenId, std::size_t> by_id_;
  TokenId next_id_;
};

// A part of a text: an added token, or the text between added tokens.
struct Fragment {
  Span span;
  std::optional<TokenId> token;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // The ids must be unique. Among tokens with equal text (perhaps only after normalization), the first
  // special token is found, or else the first token. Tokens without content are never found. `normalize` is
  // the tokenizer's normalizer.
  explicit AddedTokens(std::vector<AddedToken> tokens,
                       const std::function<std::string(std::string)>& normalize = std::identity());

  // `json`: the value of "added_tokens". Throws CheckpointError.
  static AddedTokens from_json(const JsonNode& json, const Vocabulary& vocabulary,
                               const std::function<std::string(std::string)>& normalize);

  // Cuts an unprocessed or normalized text at its added tokens. Among tokens that begin at the same place,
  // the longest wins. A control token must not contain input.
  std::vector<Fragment> split_raw(const MarkedText& text) const { return split(text, raw_); }
  std::vector<Fragment> split_normalized(const MarkedText& text) const { return split(text, normalized_); }
  // Whether split_normalized can find control tokens.
  bool has_normalized_control() const { return has_normalized_control_; }

  const std::vector<AddedToken>& all() const { return tokens_; }
  std::optional<TokenId> find(std::string_view content) const;
  const AddedToken* by_id(TokenId id) const;

 private:
  void look_for(std::size_t index, const std::function<std::string(std::string)>& normalize);
  std::vector<Fragment> split(const MarkedText& text, const StringSet& patterns) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;  // indices into tokens_
  std::unordered_map<TokenId, std::size_t> by_id_;
  StringSet raw_;  // values are indices into tokens_
  StringSet normalized_;
  bool has_normalized_control_ = false;
};

}  // namespace tp
