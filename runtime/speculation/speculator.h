// Decides which draft tokens a step verifies, and counts how many are accepted.
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
  // `max`: largest number of tokens of a draft. Without `costs`, a step has all drafts that fit.
  // `free`: costs nothing, and replaces `source` while drafts have cost more than they gained; null: none.
  // `follows_prompts`: also send queries for 0 tokens about sequences whose prompts are computed.
  Speculator(std::unique_ptr<DraftSource> source, std::size_t max, std::optional<RowCosts> costs = {},
             std::unique_ptr<DraftSource> free = nullptr, bool follows_prompts = false);

  std::size_t max_drafts() const { return max_; }
  bool follows_prompts() const { return follows_prompts_; }

  // A step before drafts are added.
  struct StepSize {
    std::size_t rows = 0;
    std::size_t sequences = 0;  // sequences for which the step chooses a token
    std::size_t room = 0;       // number of further rows that fit
  };
  // Returns a draft for each query. Drafts are empty if memory is short or the source has failed. While
  // earlier drafts have cost more than they gained, they come from `free`. Throws LockstepError.
  std::vector<Draft> draft(std::span<const DraftQuery> queries, const StepSize& step);
  // Shortens the drafts to the rows that promise the most tokens per second.
  void select(std::span<Draft> drafts, const StepSize& step);

  // Counts the result of one sequence's draft.
  void count(std::size_t drafted, std::size_t accepted);
  // A finished step.
  struct StepOutcome {
    std::size_t rows = 0;
    std::size_t drafted = 0;   // number of rows that were draft tokens
    std::size_t accepted = 0;  // number of accepted draft tokens
    double seconds = 0.0;      // 0: unknown, or the step also had prompts
  };
  void observe(const StepOutcome& step);
  // Ends a sequence, and lets a source learn if `text` contains tokens of an answer. Throws LockstepError.
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

  std::unique_ptr<DraftSource> source_;  // null after it has failed
  std::unique_ptr<DraftSource> free_;
  std::size_t max_;
  bool follows_prompts_;
  std::optional<RowCosts> costs_;
  std::optional<DraftBudget> budget_;  // set if costs are known
  double draft_seconds_ = 0.0;         // time of the last drafts
  bool has_drafted_ = false;           // whether this time is charged to the budget
  bool asked_ = false;                 // drafts were requested since the last observed step
  double token_seconds_ = 0.0;         // value of an accepted token of the last step
  RecentMedian gains_;                 // gains of steps with drafts, relative to a step without drafts
  SpeculationCounts counts_;
};

// Functions that create sources. Unneeded functions may be empty.
struct DraftSources {
  std::function<std::unique_ptr<DraftSource>()> custom{};  // EngineHooks::draft_source
  std::function<std::unique_ptr<DraftSource>()> model{};   // if there is a draft model
  std::function<std::unique_ptr<DraftSource>(std::unique_ptr<DraftSource>)> wrap{};
  bool follows_prompts = false;  // as in Speculator
};

// Creates a speculator; null if the options disable drafts. Drafts of a program's own source are checked.
std::unique_ptr<Speculator> make_speculator(const SpeculationOptions& options, const DraftSources& sources,
                                            std::size_t vocab_size, std::optional<RowCosts> costs);

}  // namespace tp
