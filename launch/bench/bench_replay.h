// `tp-infer bench --acceptance-trace`: what draft tokens gain with real texts, on any model.
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
  // Lets an engine draft from the replayed texts what `speculation` would guess of the real ones.
  void add_to(EngineOptions& options, EngineHooks& hooks, std::size_t vocab_size) const;
};

// The turns of one text, or of a batch of several.
struct ReplayTurns {
  std::vector<BenchRow> plain;
  std::vector<BenchRow> drafted;

  // "edit: 2.31 times as fast with drafts (2.10 to 2.40 in 5 turns), 2.9 tokens in a step, 61 % of ..."
  std::string summary() const;
};

// `first`: of the texts; a batch has those that follow, too. Of several turns the first does not count.
ReplayTurns measure_replay_turns(Engine& engine, const BenchReplay& replay, BenchRun run, std::size_t first,
                                 std::size_t turns);

}  // namespace tp
