#include "model/tokenizer/models/word_piece.h"

#include <algorithm>

namespace tp {
namespace {

std::size_t count_of_characters(std::string_view text) {
  const auto begins_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, Options options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.find_text(static_cast<TokenId>(id)).value_or("");
    if (!text.empty()) beginnings_.insert(text, id);
    if (continues_as_it_begins()) continue;
    if (text.starts_with(options_.continuing_prefix) && text.size() > options_.continuing_prefix.size())
      continuations_.insert(text.substr(options_.continuing_prefix.size()), id);
  }
}

void WordPiece::encode(std::string_view word, std::vector<TokenId>& out) const {
  const std::size_t size_before = out.size();
  if (count_of_characters(word) <= options_.max_characters && cut(word, out)) return;
  out.resize(size_before);
  out.push_back(options_.unknown);
}

// Returns false if the rest of the word has no token.
bool WordPiece::cut(std::string_view word, std::vector<TokenId>& out) const {
  const StringSet* tokens = &beginnings_;
  while (!word.empty()) {
    const std::optional<StringSet::Match> token = tokens->longest_prefix_of(word);
    if (!token) return false;
    out.push_back(static_cast<TokenId>(token->value));
    word.remove_prefix(token->length);
    if (!continues_as_it_begins()) tokens = &continuations_;
  }
  return true;
}

}  // namespace tp
