#include "runtime/serve/replay.h"

#include "tp/error.h"
#include "tp/internal/require.h"

namespace tp {

Replay::Replay(const std::vector<RecordedToken>& tokens) {
  for (const RecordedToken& token : tokens)
    tracks_[{token.prompt, token.event.sample}].events.push_back(token.event);
}

std::vector<std::vector<TokenId>> Replay::generated(std::size_t prompt) const {
  std::vector<std::vector<TokenId>> generated;
  for (const auto& [place, track] : tracks_) {
    if (place.first != prompt) continue;
    generated.resize(static_cast<std::size_t>(place.second) + 1);
    for (const TokenEvent& event : track.events) generated.back().push_back(event.token);
  }
  return generated;
}

bool Replay::adopt(std::size_t prompt, TokenEvent& event) {
  const auto found = tracks_.find({prompt, event.sample});
  if (found == tracks_.end() || !event.error.empty()) return false;
  Track& track = found->second;
  event.cached_tokens = track.events.front().cached_tokens;
  const bool repeats = track.repeated < track.events.size();
  const TokenEvent& recorded = repeats ? track.events[track.repeated++] : track.events.back();
  event.drafted_tokens += recorded.drafted_tokens;
  event.accepted_tokens += recorded.accepted_tokens;
  if (!repeats) return false;
  require<Error>(event.token == recorded.token,
                 "the answer cannot be continued: its token {} is {} in this job, and was {}; start the jobs "
                 "with `same_bits`, on hosts of the same kind",
                 track.repeated - 1, event.token, recorded.token);
  event.logprob = recorded.logprob;
  event.top_logprobs = recorded.top_logprobs;
  return true;
}

}  // namespace tp
