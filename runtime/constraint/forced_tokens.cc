#include "runtime/constraint/forced_tokens.h"

#include "model/tokenizer/text/utf8.h"

#include <cstddef>
#include <optional>
#include <string>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxBytes = 512;      // bytes of the longest stretch that is examined
constexpr std::size_t kMaxKnown = 1 << 14;  // states

}  // namespace

const std::vector<TokenId>& ForcedTokens::after(StateId state) {
  if (const auto known = known_.find(state); known != known_.end()) return known->second;
  if (known_.size() == kMaxKnown) known_.clear();
  return known_[state] = find(state);
}

std::vector<TokenId> ForcedTokens::find(StateId state) const {
  std::string bytes;
  while (bytes.size() < kMaxBytes) {
    const std::optional<std::uint8_t> next = machine_->forced_byte(state);
    if (!next || *next == kControlByte) break;
    bytes.push_back(static_cast<char>(*next));
    state = machine_->next(state, *next);
  }
  bytes.resize(bytes.size() - utf8::incomplete_tail(bytes));
  if (bytes.empty() || !utf8::is_valid(bytes)) return {};
  std::vector<TokenId> tokens = vocabulary_->encode_after_text(bytes);
  if (!tokens.empty() && !machine_->is_final(state)) tokens.pop_back();
  return tokens;
}

}  // namespace tp::constraint
