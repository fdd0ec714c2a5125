#include "model/tokenizer/lost_flag.h"

#include "model/tokenizer/text/unicode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

struct StoredFlag {
  std::string_view name;
  bool AddedToken::*member;
};

constexpr StoredFlag kStoredFlags[] = {{"lstrip", &AddedToken::lstrip},
                                       {"rstrip", &AddedToken::rstrip},
                                       {"single_word", &AddedToken::single_word},
                                       {"normalized", &AddedToken::normalized}};

// Texts with the token that expose its flags.
std::vector<std::string> texts_with(const std::string& token) {
  using unicode::Form;
  std::vector<std::string> spellings = {token, unicode::to_lower(token), unicode::to_upper(token)};
  for (const Form form : {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd})
    spellings.push_back(unicode::normalize(token, form));
  std::ranges::sort(spellings);
  spellings.erase(std::unique(spellings.begin(), spellings.end()), spellings.end());
  std::vector<std::string> texts;
  for (const std::string& spelling : spellings) {
    for (const char* around : {"a{}a", " {} ", "a \n{}\n a"})
      texts.push_back(fmt::format(fmt::runtime(around), spelling));
  }
  return texts;
}

// The ids of added tokens, and the normalized text between them.
using Cuts = std::vector<std::pair<std::optional<TokenId>, std::string>>;

Cuts cuts_of(const std::string& text, const AddedTokens& added, const Normalizer& normalizer) {
  Cuts cuts;
  for (const Fragment& raw : added.split_raw(MarkedText(text))) {
    if (raw.token) {
      cuts.emplace_back(raw.token, "");
      continue;
    }
    const std::string normal = normalizer(text.substr(raw.span.begin, raw.span.end - raw.span.begin));
    for (const Fragment& part : added.split_normalized(MarkedText(normal)))
      cuts.emplace_back(part.token,
                        part.token ? "" : normal.substr(part.span.begin, part.span.end - part.span.begin));
  }
  return cuts;
}

}  // namespace

std::optional<LostFlag> find_lost_flag(const AddedTokens& original, const AddedTokens& copy,
                                       const Normalizer& normalizer) {
  for (const StoredFlag& flag : kStoredFlags) {
    std::vector<AddedToken> tokens = original.all();
    std::vector<const AddedToken*> changed;
    for (AddedToken& token : tokens) {
      const AddedToken* const copied = copy.by_id(token.id);
      if (copied == nullptr || copied->*flag.member == token.*flag.member) continue;
      token.*flag.member = copied->*flag.member;
      changed.push_back(original.by_id(token.id));
    }
    if (changed.empty()) continue;
    const AddedTokens without(std::move(tokens), normalizer);
    for (const AddedToken* const token : changed) {
      for (const std::string& text : texts_with(token->content)) {
        if (cuts_of(text, original, normalizer) != cuts_of(text, without, normalizer))
          return LostFlag{flag.name, token->content, token->*flag.member};
      }
    }
  }
  return std::nullopt;
}

}  // namespace tp
