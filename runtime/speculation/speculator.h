// Decides which draft tokens a step has, and counts what becomes of them.
#pragma once

#include "runtime/speculation/row_costs.h"
#include "tp/draft_source.h"
#include "tp/speculation.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tp {

class Speculator {
 public:
  // `most`: tokens of a draft. Without costs, a step has all drafts that there is room for.
  Speculator(std::unique_ptr<DraftSource> source, std::size_t most, std::optional<RowCosts> costs = {});

  std::size_t most() const { return most_; }

  // A draft for each query. Without memory for them there are none, nor after the source has failed.
  std::vector<Draft> draft(std::span<const DraftQuery> queries);

  // A step without drafts.
  struct StepSize {
    std::size_t rows = 0;
    std::size_t sequences = 0;  // that it chooses a token for
    std::size_t room = 0;       // for further rows
  };
  // Shortens the drafts to the rows with which the most tokens per second can be expected.
  void select(std::span<Draft> drafts, const StepSize& step) const;

  // What became of one sequence's draft.
  void count(std::size_t drafted, std::size_t accepted);
  // A step without prompts has taken so long (0: unknown).
  void observe(std::size_t rows, bool has_drafts, double seconds);
  void end(std::uint64_t sequence) {
    if (source_) source_->end(sequence);
  }

  const SpeculationCounts& counts() const { return counts_; }

 private:
  std::size_t best_rows(std::span<const double> chances, const StepSize& step) const;

  std::unique_ptr<DraftSource> source_;  // null: it has failed
  std::size_t most_;
  std::optional<RowCosts> costs_;
  SpeculationCounts counts_;
};

// With these options; null if there are to be no drafts. `source`: see EngineOptions::draft_source; its
// drafts are checked.
std::unique_ptr<Speculator> make_speculator(const SpeculationOptions& options,
                                            const std::function<std::unique_ptr<DraftSource>()>& source,
                                            std::size_t vocab_size, std::optional<RowCosts> costs);

}  // namespace tp
