// The measurements of `tp-infer bench`.
#pragma once

#include "launch/bench/bench_row.h"
#include "launch/bench/draft_replay.h"
#include "tp/engine.h"
#include "tp/request.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

struct BenchRun {
  SamplingParams sampling{};
  std::size_t prompt = 0;  // tokens of each sequence's prompt
  std::size_t batch = 1;
  std::size_t generate = 0;  // tokens of each sequence
  std::size_t first = 0;     // number of the first prompt; prompts with other numbers are not cached
};

// All functions throw RequestError if a sequence ends early, which would distort the measurement.

// Runs every prompt once and generates one token each.
BenchRow measure_prefill(Engine& engine, const BenchRun& run);

// Runs the prompts of measure_prefill again, from the prefix cache. The time counts while all sequences
// generate: from the step after the last sequence began to the step in which the first one ends.
BenchRow measure_decode(Engine& engine, const BenchRun& run);

// Computes the mean hidden states of every sequence with an encoder.
BenchRow measure_embed(Engine& engine, const BenchRun& run);

// Rows of measure_decode without constraints, and with a JSON Schema of about 2 KB per sequence: the last of
// several turns, with `step_seconds` of all turns.
struct MaskRows {
  BenchRow plain;
  BenchRow masked;
  std::vector<double> ratios;  // [turns] median masked step / median plain step
};
// Throws RequestError if a text does not follow its schema, before anything is timed.
MaskRows measure_masks(Engine& engine, BenchRun run);

// Runs measure_decode for one sequence per real text, without and with draft tokens. As many draft tokens are
// accepted as in the real text. The engine's draft source must be a ReplaySource with `replayed`. Throws
// RequestError if drafts change a text.
struct ReplayRows {
  BenchRow plain;
  BenchRow drafted;
};
ReplayRows measure_replay(Engine& engine, const BenchRun& run, std::span<const RealText* const> texts,
                          ReplayedTexts& replayed);

}  // namespace tp
