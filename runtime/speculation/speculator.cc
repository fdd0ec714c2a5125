#include "runtime/speculation/speculator.h"

#include "runtime/speculation/ngram_source.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

namespace tp {

Speculator::Speculator(std::unique_ptr<DraftSource> source, std::size_t most, std::optional<RowCosts> costs)
    : source_(std::move(source)), most_(std::min(most, kMaxDraftTokens)), costs_(std::move(costs)) {}

std::vector<Draft> Speculator::draft(std::span<const DraftQuery> queries) {
  try {
    return source_->draft(queries);
  } catch (const std::bad_alloc&) {
    for (const DraftQuery& query : queries) source_->end(query.sequence);
    return std::vector<Draft>(queries.size());
  }
}

void Speculator::select(std::span<Draft> drafts, const StepSize& step) const {
  constexpr double kLeastChance = 0.03;  // less than a row costs anywhere
  // In the order of their chances, in which the tokens of a draft come one after the other.
  struct Row {
    double chance;
    std::size_t draft;
  };
  std::vector<Row> rows;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    for (const double chance : drafts[i].chances) {
      if (costs_ && chance < kLeastChance) break;
      rows.push_back({chance, i});
    }
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), &Row::chance);
  std::vector<double> chances;
  for (const Row& row : rows) chances.push_back(row.chance);
  std::vector<std::size_t> counts(drafts.size(), 0);
  rows.resize(best_rows(chances, step));
  for (const Row& row : rows) ++counts[row.draft];
  for (std::size_t i = 0; i < drafts.size(); ++i) drafts[i].shorten_to(counts[i]);
}

// How many of the rows, which have these chances, to add to the step.
std::size_t Speculator::best_rows(std::span<const double> chances, const StepSize& step) const {
  // Less is not worth the risk of a wrong estimate.
  constexpr double kLeastGain = 1.03;
  const std::size_t most = std::min(step.room, chances.size());
  if (!costs_) return most;
  auto tokens = static_cast<double>(step.sequences);
  double best_rate = kLeastGain * tokens / costs_->seconds(step.rows, false);
  std::size_t best = 0;
  for (std::size_t count = 1; count <= most; ++count) {
    tokens += chances[count - 1];
    const double rate = tokens / costs_->seconds(step.rows + count, true);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = count;
  }
  return best;
}

void Speculator::count(std::size_t drafted, std::size_t accepted) {
  if (drafted == 0) return;
  ++counts_.drafts;
  for (std::size_t i = 0; i < drafted; ++i) ++counts_.drafted[i];
  for (std::size_t i = 0; i < accepted; ++i) ++counts_.accepted[i];
}

void Speculator::observe(std::size_t rows, bool has_drafts, double seconds) {
  if (costs_) costs_->observe(rows, has_drafts, seconds);
}

std::unique_ptr<Speculator> make_speculator(const SpeculationOptions& options,
                                            std::optional<RowCosts> costs) {
  if (options.drafts == DraftKind::none) return nullptr;
  return std::make_unique<Speculator>(std::make_unique<NgramSource>(), options.tokens, std::move(costs));
}

}  // namespace tp
