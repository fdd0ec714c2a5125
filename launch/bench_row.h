#pragma once

#include "tp/engine.h"
#include "tp/peak_rates.h"
#include "tp/rank_report.h"
#include "tp/request.h"
#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// One measurement, over all ranks.
struct BenchRow {
  std::string phase;  // "prefill" or "decode"
  std::size_t batch = 0;
  std::size_t prompt = 0;  // tokens of each sequence's prompt
  std::size_t tokens = 0;  // computed (prefill) or generated (decode), in all sequences
  std::size_t steps = 0;
  double seconds = 0.0;
  SamplingParams sampling{};
  std::vector<RankReport> ranks{};
  std::vector<TokenId> token_ids{};  // decode: of the first sequence

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  double ms_per_step() const { return 1000 * seconds / static_cast<double>(steps); }
};

// The table's first lines.
std::string bench_header();

// A row of the table, followed by lines about anything unusual; or a JSON object on one line.
std::string text_of(const BenchRow& row, const Engine& engine, const PeakRates& peaks, bool json);

}  // namespace tp
