// The control token with which a model's prompts begin.
#pragma once

#include "tp/engine.h"

#include <optional>
#include <vector>

namespace tp {

// BOS, or nothing if the tokenizer puts no control token before a text.
inline std::optional<TokenId> bos_of(const Engine& engine) {
  if (!engine.has_tokenizer()) return std::nullopt;
  const std::vector<TokenId> ids = engine.encode("a");  // a control token after the text is EOS
  if (ids.size() < 2 || !engine.is_special(ids.front())) return std::nullopt;
  return ids.front();
}

}  // namespace tp
