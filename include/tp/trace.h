// A timeline of each rank's activities, for a trace viewer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tp {

enum class Activity : std::uint8_t {
  step,          // a whole forward pass; detail: tokens
  attention,     // attention of one block, without the all-reduce; detail: tokens
  feed_forward,  // the feed-forward part of one block, without the all-reduce; detail: tokens
  logits,        // final norm and LM head; detail: rows
  all_reduce,    // including the wait for other ranks; detail: bytes
  gather,        // to rank 0; detail: this rank's bytes
  broadcast,     // from rank 0, including the wait for rank 0; detail: bytes
  sample,        // rank 0 collects and detokenizes the chosen tokens; detail: outputs
  exchange,      // exchange of small values while ranks choose tokens; detail: bytes
  choose,        // choosing tokens, including exchanges and gather; detail: rows
  // An all-reduce in the background, while the rank computes; detail: bytes. The rank's own all_reduce event
  // then covers only the wait for the result.
  overlapped_all_reduce,
  store,  // work of the store of prompts (EngineOptions::kv_store) between steps; detail: bytes copied for it
};

constexpr std::string_view name_of(Activity activity) {
  constexpr std::string_view kNames[] = {"step",
                                         "attention",
                                         "feed_forward",
                                         "logits",
                                         "all_reduce",
                                         "gather",
                                         "broadcast",
                                         "sample",
                                         "exchange",
                                         "choose",
                                         "overlapped_all_reduce",
                                         "store"};
  return kNames[static_cast<std::size_t>(activity)];
}

struct TraceEvent {
  double begin = 0.0;  // seconds since all ranks began tracing
  double end = 0.0;
  std::uint64_t detail = 0;
  Activity activity = Activity::step;
};

// One rank's events, in the order in which they were recorded. Most events are recorded when they end.
struct RankTrace {
  std::vector<TraceEvent> events;
  std::uint64_t dropped = 0;  // events lost once the buffer was full
};

}  // namespace tp
