#include "runtime/scheduling/token_bans.h"

#include "runtime/text/bad_words.h"

#include <algorithm>

namespace tp {
namespace {

using Tokens = std::span<const TokenId>;

void append(const std::vector<TokenId>& more, std::vector<TokenId>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

// Adds the tokens that followed earlier occurrences of the text's last `size` - 1 tokens.
void ban_repeated(Tokens text, std::size_t size, std::vector<TokenId>& banned) {
  const std::size_t begun = size - 1;
  if (text.size() < begun) return;
  const Tokens end = text.last(begun);
  for (std::size_t next = begun; next < text.size(); ++next) {
    if (std::ranges::equal(text.subspan(next - begun, begun), end)) banned.push_back(text[next]);
  }
}

}  // namespace

std::vector<TokenId> TokenBans::after(Tokens text, std::size_t prompt) const {
  const Tokens generated = text.subspan(prompt);
  std::vector<TokenId> banned;
  if (generated.size() < min_tokens) append(ends, banned);
  if (generated.size() < min_before_model_ends) append(model_ends, banned);
  if (generated.size() == beginning) append(first, banned);
  for (const std::vector<TokenId>& word : words) {
    const std::size_t begun = word.size() - 1;
    if (begun <= generated.size() && std::ranges::equal(generated.last(begun), Tokens(word).first(begun)))
      banned.push_back(word.back());
  }
  if (no_repeat_ngram != 0) ban_repeated(text, no_repeat_ngram, banned);
  std::ranges::sort(banned);
  banned.erase(std::unique(banned.begin(), banned.end()), banned.end());
  return banned;
}

void add_defaults(const GenerationDefaults& defaults, std::size_t prompt, std::size_t max_tokens,
                  bool has_constraint, TokenBans& bans) {
  add_default_bad_words(defaults, bans.ends, bans.words);
  for (const TokenId token : defaults.suppressed) bans.words.push_back({token});
  if (has_constraint) return;
  bans.min_before_model_ends = std::min(defaults.min_tokens(prompt), max_tokens);
  bans.first = defaults.suppressed_first;
  // As in transformers, the ban applies to the token after a forced first token.
  bans.beginning = prompt == 1 && defaults.forced_first ? 1 : 0;
  bans.no_repeat_ngram = defaults.no_repeat_ngram;
}

}  // namespace tp
