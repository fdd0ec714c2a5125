#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/text/span.h"
#include "model/tokenizer/text/string_set.h"
#include "tp/marked_text.h"
#include "tp/token_id.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tp {

// A token that is found in the text as it stands, before anything else looks at the text.
struct AddedToken {
  TokenId id;
  std::string content;
  bool special;                // control tokens, which SkipSpecial leaves out
  bool lstrip;                 // takes the white space to its left with it
  bool rstrip;                 // and to its right
  bool single_word;            // not inside of a word
  bool normalized;             // is looked for in the normalized text, in its own normalized form
  bool named_special = false;  // the configuration calls it special, though it is not flagged so

  // Whether input cannot write it. Other added tokens, such as runs of spaces or <think>, are text that has a
  // token of its own. Some checkpoints forget the flag of turn markers; those are told by what names them or
  // by their shape:
  // <|im_start|>.
  bool is_control() const;
};

// Reads a token's "content" and flags. Throws CheckpointError.
AddedToken added_token_from_json(const JsonNode& json, TokenId id);

// The added tokens of a file, before they are known to be sound.
class AddedTokenList {
 public:
  // Throws CheckpointError at `place` for a token that is too long, and for an id that another token has.
  void add(const JsonNode& place, AddedToken token);
  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_set<TokenId> ids_;
};

// A part of a text: an added token, or text between them.
struct Fragment {
  Span span;
  std::optional<TokenId> token;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // The ids must differ. Of tokens that look alike, perhaps only when they are normalized, the first special
  // one is looked for, else the first, and none without content. `normalize` is the tokenizer's normalizer.
  AddedTokens(std::vector<AddedToken> tokens, const std::function<std::string(std::string)>& normalize);

  // `json`: the value of "added_tokens". Throws CheckpointError.
  static AddedTokens from_json(const JsonNode& json,
                               const std::function<std::string(std::string)>& normalize);

  // Cuts a text at the tokens that are looked for in texts as they are, or in normalized texts. Of several
  // that begin at the same place the longest is taken. Where any of it is input there is no control token.
  std::vector<Fragment> split_raw(const MarkedText& text) const { return split(text, raw_); }
  std::vector<Fragment> split_normalized(const MarkedText& text) const { return split(text, normalized_); }
  // Whether the second can find control tokens.
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
