#include "model/tokenizer/steps/added_tokens.h"

#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/text/vocabulary.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Limited, because the search takes time proportional to the tokens' length at every place of a text.
constexpr std::size_t kMaxContentSize = 1024;

// Whether Rust's engine matches \w. It includes joiners and letters in circles or squares.
bool is_of_word(char32_t code_point) {
  const auto is_within = [&](char32_t first, char32_t last) {
    return code_point >= first && code_point <= last;
  };
  return unicode::is_word_character(code_point) || is_within(0x200C, 0x200D) || is_within(0x24B6, 0x24E9) ||
         is_within(0x1F130, 0x1F149) || is_within(0x1F150, 0x1F169) || is_within(0x1F170, 0x1F189);
}

bool is_inside_word(std::string_view text, const Span& span) {
  const std::string_view before = text.substr(0, span.begin);
  const std::string_view after = text.substr(span.end);
  return (!before.empty() && is_of_word(utf8::last_character(before))) ||
         (!after.empty() && is_of_word(utf8::first_character(after).code_point));
}

// Extends a token's span by adjacent white space, but not before `limit`, the end of the previous token.
Span with_white_space(std::string_view text, Span span, const AddedToken& token, std::size_t limit) {
  if (token.lstrip) {
    const std::size_t begin = span.begin - unicode::trailing_white_space(text.substr(0, span.begin));
    span.begin = std::max(begin, limit);
  }
  if (token.rstrip) span.end += unicode::leading_white_space(text.substr(span.end));
  return span;
}

}  // namespace

bool AddedToken::is_control() const {
  const bool has_bars = content.starts_with("<|") && content.ends_with("|>");
  // DeepSeek's tokens have the bars U+FF5C.
  const bool has_wide_bars = content.starts_with("<\uFF5C") && content.ends_with("\uFF5C>");
  return special || named_special || has_bars || has_wide_bars;
}

AddedToken added_token_from_json(const JsonNode& json, TokenId id) {
  AddedToken token;
  token.id = id;
  token.content = json.at("content").string();
  token.special = json.boolean_or("special", false);
  token.normalized = !token.special;
  read_flags(json, token);
  return token;
}

void read_flags(const JsonNode& json, AddedToken& token) {
  json.update({"lstrip"}, token.lstrip);
  json.update({"rstrip"}, token.rstrip);
  json.update({"single_word"}, token.single_word);
  json.update({"normalized"}, token.normalized);
}

AddedTokenList::AddedTokenList(const Vocabulary& vocabulary, const std::vector<AddedToken>& known)
    : vocabulary_(vocabulary), next_id_(static_cast<TokenId>(vocabulary.size())) {
  for (const AddedToken& token : known) put(token);
}

void AddedTokenList::add(const JsonNode& place, AddedToken token) {
  if (token.content.empty()) return;
  if (token.content.size() > kMaxContentSize)
    place.fail(fmt::format("a token of {} bytes", token.content.size()),
               fmt::format("at most {}", kMaxContentSize));
  token.id = id_for(token);
  put(std::move(token));
}

TokenId AddedTokenList::id_for(const AddedToken& token) const {
  if (const auto known = by_content_.find(token.content); known != by_content_.end())
    return tokens_[known->second].id;
  if (const std::optional<TokenId> known = vocabulary_.find(token.content)) return *known;
  const auto owner = by_id_.find(token.id);
  const bool is_added = owner != by_id_.end() && !tokens_[owner->second].reserved;
  return is_added || vocabulary_.find_text(token.id) ? next_id_ : token.id;
}

void AddedTokenList::put(AddedToken token) {
  const auto [owner, is_new] = by_id_.emplace(token.id, tokens_.size());
  if (is_new)
    tokens_.emplace_back();
  else
    by_content_.erase(tokens_[owner->second].content);
  by_content_.emplace(token.content, owner->second);
  next_id_ = std::max(next_id_, token.id + 1);
  tokens_[owner->second] = std::move(token);
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens,
                         const std::function<std::string(std::string)>& normalize)
    : tokens_(std::move(tokens)) {
  for (const bool special : {true, false}) {
    for (std::size_t index = 0; index < tokens_.size(); ++index)
      if (tokens_[index].special == special) look_for(index, normalize);
  }
}

void AddedTokens::look_for(std::size_t index, const std::function<std::string(std::string)>& normalize) {
  const AddedToken& token = tokens_[index];
  by_id_.emplace(token.id, index);
  if (token.content.empty() || !by_content_.emplace(token.content, index).second) return;
  const std::string pattern = token.normalized ? normalize(token.content) : token.content;
  StringSet& patterns = token.normalized ? normalized_ : raw_;
  if (pattern.empty() || patterns.contains(pattern)) return;
  patterns.insert(pattern, index);
  has_normalized_control_ |= token.normalized && token.is_control();
}

AddedTokens AddedTokens::from_json(const JsonNode& json, const Vocabulary& vocabulary,
                                   const std::function<std::string(std::string)>& normalize) {
  AddedTokenList tokens(vocabulary);
  for (const JsonNode& element : json.elements()) {
    const auto id = static_cast<TokenId>(element.at("id").integer_below(kMaxVocabularySize));
    tokens.add(element, added_token_from_json(element, id));
  }
  return AddedTokens(tokens.take(), normalize);
}

std::optional<TokenId> AddedTokens::find(std::string_view content) const {
  const auto entry = by_content_.find(std::string(content));
  if (entry == by_content_.end()) return std::nullopt;
  return tokens_[entry->second].id;
}

const AddedToken* AddedTokens::by_id(TokenId id) const {
  const auto entry = by_id_.find(id);
  return entry == by_id_.end() ? nullptr : &tokens_[entry->second];
}

std::vector<Fragment> AddedTokens::split(const MarkedText& marked, const StringSet& patterns) const {
  const std::string_view text = marked.text();
  std::vector<Fragment> fragments;
  std::size_t done = 0;
  const auto add_text_until = [&](std::size_t end) {
    if (done < end) fragments.push_back({{done, end}, std::nullopt});
  };
  for (std::size_t place = 0; place < text.size();) {
    std::optional<StringSet::Match> match;
    patterns.for_each_prefix_of(text.substr(place), [&](const StringSet::Match& found) {
      const bool is_text = tokens_[found.value].is_control() && marked.has_input(place, place + found.length);
      if (!is_text) match = found;
    });
    if (!match) {
      ++place;
      continue;
    }
    const Span found = {place, place + match->length};
    place = found.end;
    const AddedToken& token = tokens_[match->value];
    if (token.single_word && is_inside_word(text, found)) continue;
    const Span taken = with_white_space(text, found, token, done);
    add_text_until(taken.begin);
    fragments.push_back({taken, token.id});
    done = taken.end;
  }
  add_text_until(text.size());
  return fragments;
}

}  // namespace tp
