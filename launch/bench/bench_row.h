#pragma once

#include "tp/engine.h"
#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/speculation.h"
#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// One measurement, over all ranks.
struct BenchRow {
  // "prefill", "decode", "masked" (decode with constraints), "drafted" (with draft tokens) or "embed"
  std::string phase;
  std::size_t batch = 0;
  std::size_t prompt = 0;  // tokens of each sequence's prompt
  std::size_t tokens = 0;  // computed (prefill) or generated (decode), in all sequences
  std::size_t steps = 0;
  double seconds = 0.0;
  SamplingParams sampling{};
  std::vector<RankReport> ranks{};
  std::vector<TokenId> token_ids{};    // decode: tokens of the first sequence
  std::vector<double> step_seconds{};  // decode
  std::string text{};                  // name of the replayed text; may be empty
  SpeculationCounts speculation{};     // drafted

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  // Whether another row belongs to the same measurement.
  bool is_like(const BenchRow& other) const {
    return phase == other.phase && batch == other.batch && prompt == other.prompt &&
           sampling.logprobs == other.sampling.logprobs && text == other.text;
  }
  double ms_per_step() const { return 1000 * seconds / static_cast<double>(steps); }
};

// Returns the q-quantile of the row's step times, in seconds.
double step_quantile(const BenchRow& row, double q);

struct BenchSummary;

// Returns "3.1%", or "-" if there is only one run.
std::string spread_text(const BenchSummary& summary);

// Returns the median run's measurements, and the spread of all runs.
nlohmann::json row_json(const BenchSummary& summary, const Engine& engine);

// Returns the table's first line, or one row followed by lines about anything unusual. `object`: the result
// of row_json().
std::string bench_header();
std::string line_text(const BenchSummary& summary, const nlohmann::json& object);

}  // namespace tp
