// Decides which draft tokens a step has, and counts what becomes of them.
#pragma once

#include "runtime/protocol/step_times.h"
#include "runtime/speculation/draft_budget.h"
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
  // `free` costs nothing, and is asked while `source` has cost more than it gained; null: none.
  // `follows_prompts`: it is to be asked about sequences whose prompts are computed, too, for no tokens.
  Speculator(std::unique_ptr<DraftSource> source, std::size_t most, std::optional<RowCosts> costs = {},
             std::unique_ptr<DraftSource> free = nullptr, bool follows_prompts = false);

  std::size_t most() const { return most_; }
  bool follows_prompts() const { return follows_prompts_; }

  // A step without drafts.
  struct StepSize {
    std::size_t rows = 0;
    std::size_t sequences = 0;  // that it chooses a token for
    std::size_t room = 0;       // for further rows
  };
  // A draft for each query. There are none without memory for them, after the source has failed, and while
  // earlier ones have cost more than they gained. Throws LockstepError.
  std::vector<Draft> draft(std::span<const DraftQuery> queries, const StepSize& step);
  // Shortens the drafts to the rows with which the most tokens per second can be expected.
  void select(std::span<Draft> drafts, const StepSize& step);

  // What became of one sequence's draft.
  void count(std::size_t drafted, std::size_t accepted);
  // A step that has ended.
  struct StepOutcome {
    std::size_t rows = 0;
    std::size_t drafted = 0;   // of these
    std::size_t accepted = 0;  // of the drafted ones
    double seconds = 0.0;      // 0: unknown, or it had prompts, too
  };
  void observe(const StepOutcome& step);
  // A sequence has ended: with these tokens if `text` has any of an answer. Throws LockstepError.
  void end(const DraftQuery& text);

  const SpeculationCounts& counts() const { return counts_; }

 private:
  bool try_on(std::unique_ptr<DraftSource>& source, const std::function<void(DraftSource& source)>& use);
  std::vector<Draft> ask(std::unique_ptr<DraftSource>& source, std::span<const DraftQuery> queries);
  bool compares(const StepSize& step) const;
  bool could_pay(std::span<const DraftQuery> queries, const StepSize& step) const;
  std::vector<DraftQuery> priced(std::span<const DraftQuery> queries, const StepSize& step) const;
  std::size_t best_rows(std::span<const double> chances, const StepSize& step) const;
  double token_seconds(const StepSize& step) const;

  std::unique_ptr<DraftSource> source_;  // null: it has failed
  std::unique_ptr<DraftSource> free_;
  std::size_t most_;
  bool follows_prompts_;
  std::optional<RowCosts> costs_;
  std::optional<DraftBudget> budget_;  // with costs
  double draft_seconds_ = 0.0;         // that the last drafts took,
  bool guesses_ = false;               // which is to be charged for
  bool asked_ = false;                 // for drafts since the last step that was observed
  double token_seconds_ = 0.0;         // what an accepted token of the last step is worth
  RecentMedian gains_;                 // of steps with drafts, in steps without
  SpeculationCounts counts_;
};

// How sources are created; all may be empty if they are not needed.
struct DraftSources {
  std::function<std::unique_ptr<DraftSource>()> custom{};  // EngineOptions::draft_source
  std::function<std::unique_ptr<DraftSource>()> model{};   // if there is a draft model
  std::function<std::unique_ptr<DraftSource>(std::unique_ptr<DraftSource>)> wrap{};
  bool follows_prompts = false;  // as Speculator's
};

// With these options; null if there are to be no drafts. The drafts of a program's own source are checked.
std::unique_ptr<Speculator> make_speculator(const SpeculationOptions& options, const DraftSources& sources,
                                            std::size_t vocab_size, std::optional<RowCosts> costs);

}  // namespace tp
