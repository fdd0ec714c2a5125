// What a rank did when: for a picture of the ranks side by side.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tp {

enum class Activity : std::uint8_t {
  step,          // a forward pass, with everything inside; detail: its tokens
  attention,     // of a block, without the all-reduce; detail: the step's tokens
  feed_forward,  // likewise
  logits,        // final norm and LM head; detail: rows
  all_reduce,    // waiting for other ranks included; detail: bytes
  gather,        // to rank 0; detail: this rank's bytes
  broadcast,     // from rank 0, waiting for it included; detail: bytes
  sample,        // rank 0 takes the chosen tokens and makes text of them; detail: outputs
  exchange,      // of small values among all ranks, while they choose tokens; detail: bytes
  choose,        // tokens for some rows, with the exchanges and the gather; detail: rows
};

constexpr std::string_view name_of(Activity activity) {
  constexpr std::string_view kNames[] = {"step",   "attention", "feed_forward", "logits",   "all_reduce",
                                         "gather", "broadcast", "sample",       "exchange", "choose"};
  return kNames[static_cast<std::size_t>(activity)];
}

struct TraceEvent {
  double begin = 0.0;  // seconds since all ranks began to trace
  double end = 0.0;
  std::uint64_t detail = 0;
  Activity activity = Activity::step;
};

// One rank's events, in the order in which they ended.
struct RankTrace {
  std::vector<TraceEvent> events;
  std::uint64_t dropped = 0;  // that came when there was no room left
};

}  // namespace tp
