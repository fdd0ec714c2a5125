#include "runtime/engine/unknown_ids.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

namespace tp {

void ignore_unknown_ids(EngineInfo& info) {
  const auto is_unknown = [&](TokenId id) {
    return id < 0 || static_cast<std::size_t>(id) >= info.config.vocab_size;
  };
  const auto ignore = [&](const char* field, TokenId id) {
    if (is_unknown(id)) info.unknown_token_ids.push_back(fmt::format("{} {}", field, id));
    return is_unknown(id);
  };
  const auto ignore_default = [&](const char* field, std::optional<TokenId>& id) {
    if (id && ignore(field, *id)) id.reset();
  };
  std::erase_if(info.eos_token_ids, [&](TokenId id) { return ignore("eos_token_id", id); });
  ignore_default("forced_bos_token_id", info.generation.forced_first);
  ignore_default("forced_eos_token_id", info.generation.forced_last);
  std::erase_if(info.generation.bad_words, [&](const std::vector<TokenId>& word) {
    if (std::ranges::none_of(word, is_unknown)) return false;
    info.unknown_token_ids.push_back(fmt::format("bad_words_ids {}", word));
    return true;
  });
  // Not reported, because a token that cannot be chosen need not be suppressed.
  std::erase_if(info.generation.suppressed, is_unknown);
  std::erase_if(info.generation.suppressed_first, is_unknown);
  std::erase_if(info.default_sampling.logit_bias, [&](const LogitBias& of) { return is_unknown(of.id); });
}

}  // namespace tp
