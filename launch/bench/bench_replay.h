// `tp-infer bench --acceptance-trace`: measures the gain of draft tokens with real texts, on any model.
#pragma once

#include "launch/bench/bench_runs.h"
#include "launch/bench/draft_replay.h"
#include "tp/engine.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tp {

struct BenchReplay {
  std::vector<RealText> texts;
  std::shared_ptr<ReplayedTexts> replayed = std::make_shared<ReplayedTexts>();

  std::size_t longest() const;  // tokens of a text and its prompt
  // Makes an engine replay the texts, with drafts like `speculation` would make for the real texts.
  void add_to(EngineOptions& options, EngineHooks& hooks, std::size_t vocab_size) const;
};

// The turns of one text, or of a batch of several.
struct ReplayTurns {
  std::vector<BenchRow> plain;
  std::vector<BenchRow> drafted;

  // "edit: 2.31 times as fast with drafts (2.10 to 2.40 in 5 turns), 2.9 tokens in a step, 61 % of ..."
  std::string summary() const;
};

// `first`: number of the first text. A batch continues with the following texts. If there are several turns,
// the first one doesn't count.
ReplayTurns measure_replay_turns(Engine& engine, const BenchReplay& replay, BenchRun run, std::size_t first,
                                 std::size_t turns);

}  // namespace tp
