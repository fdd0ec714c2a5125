#include "runtime/constraint/request_constraint.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <utility>

namespace tp::constraint {
namespace {

// In units of StateMachine::charge. A new mask for JSON takes up to 300,000 units, and a known mask hardly
// any.
constexpr std::uint64_t kFirstWork = 8000000;
constexpr std::uint64_t kTokenWork = 50000;

}  // namespace

class RequestConstraint::Use {
 public:
  explicit Use(const RequestConstraint& constraint, std::uint64_t more_work = 0)
      : lock_(constraint.compiled_->mutex),
        machine_(constraint.compiled_->machine),
        left_(constraint.work_left_) {
    machine_.limit_work(left_ + more_work);
  }
  ~Use() { left_ = machine_.work_left(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::scoped_lock<std::mutex> lock_;
  StateMachine& machine_;
  std::uint64_t& left_;
};

RequestConstraint::RequestConstraint(std::shared_ptr<CompiledConstraint> compiled, Bans bans)
    : compiled_(std::move(compiled)), bans_(std::move(bans)), work_left_(kFirstWork) {
  std::erase_if(bans_.ends,
                [&](TokenId end) { return std::ranges::find(bans_.tokens, end) != bans_.tokens.end(); });
  const Use use(*this);
  auto completions = std::make_unique<Completions>(*compiled_->vocabulary, compiled_->machine, usable());
  if (completions->is_certain() && bans_.min_tokens == 0) return;
  completions_ = std::move(completions);
  require<RequestError>(
      can_complete(compiled_->machine.start(), bans_.min_tokens),
      "the constraint cannot be satisfied (expected a text of the model's tokens, without those "
      "that logit_bias and bad_words rule out, that has at least min_tokens, {}; found none); "
      "rule out fewer tokens, or allow other texts",
      bans_.min_tokens);
}

// Excludes the last tokens of bad words: a bad word cannot occur if its last token is never used.
TokenMask RequestConstraint::usable() const {
  TokenMask usable(compiled_->vocabulary->size(), true);
  for (const TokenId id : bans_.tokens) usable.remove(id);
  for (const std::vector<TokenId>& word : bans_.sequences) usable.remove(word.back());
  return usable;
}

bool RequestConstraint::can_complete(StateId state, std::size_t tokens) const {
  return completions_ == nullptr || completions_->possible(state, tokens);
}

void RequestConstraint::remove_dead_ends(Progress progress, TokenMask& mask) const {
  const std::size_t done = progress.tokens + 1;
  const std::size_t missing = bans_.min_tokens > done ? bans_.min_tokens - done : 0;
  if (const auto known = masks_.find(progress.state); missing == 0 && known != masks_.end()) {
    mask = known->second;
    return;
  }
  for (std::size_t id = 0; id < compiled_->vocabulary->size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (mask.contains(token) && !can_complete(state_after(progress.state, token), missing))
      mask.remove(token);
  }
  if (missing == 0) masks_.emplace(progress.state, mask);
}

Progress RequestConstraint::start() const {
  const Use use(*this);
  return {compiled_->machine.start(), 0};
}

Progress RequestConstraint::after(Progress progress, TokenId token) const {
  const Use use(*this);
  return {state_after(progress.state, token), progress.tokens + 1};
}

StateId RequestConstraint::state_after(StateId state, TokenId token) const {
  const std::string_view bytes = compiled_->vocabulary->bytes(token);
  if (bytes.empty()) return kDead;
  for (std::size_t i = 0; i < bytes.size() && state != kDead; ++i)
    state = compiled_->machine.next(state, static_cast<std::uint8_t>(bytes[i]));
  return state;
}

bool RequestConstraint::is_banned(TokenId token) const {
  return std::ranges::find(bans_.tokens, token) != bans_.tokens.end();
}

// If bans matter, the tokenizer's tokens may lead to a dead end, so nothing is forced.
std::vector<TokenId> RequestConstraint::forced_now(Progress progress) const {
  if (compiled_->machine.is_final(progress.state)) {
    const bool may_end = progress.tokens >= bans_.min_tokens && !bans_.ends.empty();
    return may_end ? std::vector<TokenId>{bans_.ends.front()} : std::vector<TokenId>();
  }
  if (completions_ || !bans_.sequences.empty()) return {};
  std::vector<TokenId> tokens = compiled_->forced.after(progress.state);
  tokens.erase(std::ranges::find_if(tokens, [&](TokenId id) { return is_banned(id); }), tokens.end());
  return tokens;
}

std::vector<TokenId> RequestConstraint::forced(Progress progress) const {
  const Use use(*this);
  return forced_now(progress);
}

TokenMask RequestConstraint::allowed(Progress progress) const {
  const Use use(*this, kTokenWork);
  if (const std::vector<TokenId> forced = forced_now(progress); !forced.empty()) {
    TokenMask mask(compiled_->vocabulary->size());
    mask.add(forced.front());
    return mask;
  }
  TokenMask mask = *compiled_->masks.allowed(progress.state);
  for (const TokenId id : bans_.tokens) mask.remove(id);
  if (completions_) remove_dead_ends(progress, mask);
  if (compiled_->machine.ends(progress.state) && progress.tokens >= bans_.min_tokens)
    for (const TokenId end : bans_.ends) mask.add(end);
  return mask;
}

bool RequestConstraint::knows(Progress progress) const {
  const std::scoped_lock lock(compiled_->mutex);
  return compiled_->masks.knows(progress.state);
}

bool RequestConstraint::is_over(Progress progress) const {
  const std::scoped_lock lock(compiled_->mutex);
  return bans_.ends.empty() && compiled_->machine.is_final(progress.state);
}

}  // namespace tp::constraint
