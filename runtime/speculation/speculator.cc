#include "runtime/speculation/speculator.h"

#include "parallel/machine/stopwatch.h"
#include "runtime/speculation/mixed_source.h"
#include "runtime/speculation/ngram_source.h"
#include "tp/error.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

namespace tp {
namespace {

// Checks the drafts of a program's own source, so that its mistakes do not reach the model.
class CheckedSource : public DraftSource {
 public:
  CheckedSource(std::unique_ptr<DraftSource> source, std::size_t vocab_size)
      : source_(std::move(source)), vocab_size_(vocab_size) {
    if (!source_) throw std::logic_error("`draft_source` has created nothing (expected a DraftSource)");
  }

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    std::vector<Draft> drafts = source_->draft(queries);
    bool is_right = drafts.size() == queries.size();
    for (std::size_t i = 0; is_right && i < drafts.size(); ++i) is_right = fits(drafts[i], queries[i]);
    if (!is_right)
      throw std::logic_error(
          "wrong drafts from `draft_source` (expected one draft for each query, with at most as many tokens "
          "as the query asks for, all in the vocabulary, and with probabilities that never increase)");
    return drafts;
  }
  void learn_from(const DraftQuery& text) override { source_->learn_from(text); }
  void end(std::uint64_t sequence) override { source_->end(sequence); }

 private:
  bool fits(const Draft& draft, const DraftQuery& query) const {
    if (draft.tokens.size() > query.max_tokens || draft.chances.size() != draft.tokens.size()) return false;
    double before = 1.0;
    for (const double chance : draft.chances) {
      if (!(chance >= 0.0 && chance <= before)) return false;  // also rejects NaN
      before = chance;
    }
    return std::ranges::all_of(
        draft.tokens, [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < vocab_size_; });
  }

  std::unique_ptr<DraftSource> source_;
  std::size_t vocab_size_;
};

}  // namespace

Speculator::Speculator(std::unique_ptr<DraftSource> source, std::size_t max, std::optional<RowCosts> costs,
                       std::unique_ptr<DraftSource> free, bool follows_prompts)
    : source_(std::move(source)),
      free_(std::move(free)),
      max_(std::min(max, kMaxDraftTokens)),
      follows_prompts_(follows_prompts),
      costs_(std::move(costs)) {
  if (costs_) budget_.emplace(costs_->seconds(1, false));
}

std::vector<Draft> Speculator::draft(std::span<const DraftQuery> queries, const StepSize& step) {
  draft_seconds_ = 0.0;
  has_drafted_ = false;
  asked_ = true;
  token_seconds_ = token_seconds(step);
  if (compares(step)) return std::vector<Draft>(queries.size());
  const bool pays = could_pay(queries, step);
  if (!pays && !follows_prompts_) return std::vector<Draft>(queries.size());
  if (budget_ && !budget_->allows()) return ask(free_, queries);
  const Stopwatch watch;
  if (!pays) {
    // Lets the source keep up with the texts, because it cannot read their states later.
    std::vector<DraftQuery> nothing(queries.begin(), queries.end());
    for (DraftQuery& query : nothing) query.max_tokens = 0;
    ask(source_, nothing);
    draft_seconds_ = watch.seconds();
    has_drafted_ = true;
    return std::vector<Draft>(queries.size());
  }
  std::vector<Draft> drafts = ask(source_, priced(queries, step));
  draft_seconds_ = watch.seconds();
  has_drafted_ = std::ranges::any_of(drafts, [](const Draft& draft) { return !draft.tokens.empty(); });
  return drafts;
}

// Whether to omit drafts in this step, which has no prompts, for comparison. True after many steps in a row
// with drafts that gained little: if the machine has become slower, a small gain may really be a loss.
bool Speculator::compares(const StepSize& step) const {
  constexpr std::size_t kInARow = 16;
  constexpr double kClearGain = 0.25;
  return costs_ && step.rows == step.sequences && costs_->drafted_in_a_row() >= kInARow &&
         gains_.value() < kClearGain;
}

// Whether drafts would pay if all of their tokens were right. Also true if no tokens are wanted, because the
// source only follows.
bool Speculator::could_pay(std::span<const DraftQuery> queries, const StepSize& step) const {
  std::size_t max = 0;
  for (const DraftQuery& query : queries) max += query.max_tokens;
  return max == 0 || best_rows(std::vector(std::min(max, step.room), 1.0), step) > 0;
}

// Returns whether `use` succeeded. Keeps the source after std::bad_alloc, and drops it after other errors.
bool Speculator::try_on(std::unique_ptr<DraftSource>& source,
                        const std::function<void(DraftSource& source)>& use) {
  if (!source) return false;
  try {
    use(*source);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const LockstepError&) {
    throw;
  } catch (const std::exception& error) {
    counts_.failure = error.what();
    source.reset();
    return false;
  }
}

std::vector<Draft> Speculator::ask(std::unique_ptr<DraftSource>& source,
                                   std::span<const DraftQuery> queries) {
  std::vector<Draft> drafts;
  if (try_on(source, [&](DraftSource& any) { drafts = any.draft(queries); })) return drafts;
  // Frees the memory that the source uses for these texts.
  for (const DraftQuery& query : queries) {
    if (source) source->end(query.sequence);
  }
  return std::vector<Draft>(queries.size());
}

void Speculator::end(const DraftQuery& text) {
  const bool has_answer = text.tokens.size() > text.prompt_tokens;
  // Both sources share one history, to which each text is added once.
  std::unique_ptr<DraftSource>& learner = source_ ? source_ : free_;
  if (has_answer) try_on(learner, [&](DraftSource& any) { any.learn_from(text); });
  for (const auto* source : {&source_, &free_}) {
    if (*source) (*source)->end(text.sequence);
  }
}

// Adds the costs of tokens and rows to the queries.
std::vector<DraftQuery> Speculator::priced(std::span<const DraftQuery> queries, const StepSize& step) const {
  std::vector<DraftQuery> out(queries.begin(), queries.end());
  for (DraftQuery& query : out) {
    if (!costs_) break;
    query.token_seconds = token_seconds_;
    query.row_seconds = (costs_->seconds(step.rows + out.size(), true) - costs_->seconds(step.rows, true)) /
                        static_cast<double>(out.size());
  }
  return out;
}

// Seconds per chosen token in a step that has neither prompts nor drafts.
double Speculator::token_seconds(const StepSize& step) const {
  const std::size_t sequences = std::max<std::size_t>(step.sequences, 1);
  return costs_ ? costs_->seconds(sequences, false) / static_cast<double>(sequences) : 0.0;
}

void Speculator::select(std::span<Draft> drafts, const StepSize& step) {
  constexpr double kMinChance = 0.03;  // every row costs more than this is worth
  // Sorted by descending chance, which keeps the tokens of each draft in order.
  struct Row {
    double chance;
    std::size_t draft;
  };
  std::vector<Row> rows;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    for (const double chance : drafts[i].chances) {
      if (costs_ && chance < kMinChance) break;
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

// Returns the number of rows to add to the step. `chances`: the rows' chances, descending.
std::size_t Speculator::best_rows(std::span<const double> chances, const StepSize& step) const {
  // Smaller gains are not worth the risk of a wrong estimate. Before drafts are measured, they are tried even
  // at a small expected loss.
  constexpr double kMinGain = 1.03;
  constexpr double kMinTried = 0.97;
  const std::size_t max = std::min(step.room, chances.size());
  if (!costs_) return max;
  auto tokens = static_cast<double>(step.sequences);
  const double min = costs_->knows_drafts() ? kMinGain : kMinTried;
  double best_rate = min * tokens / (draft_seconds_ + costs_->seconds(step.rows, false));
  std::size_t best = 0;
  for (std::size_t count = 1; count <= max; ++count) {
    tokens += chances[count - 1];
    const double rate = tokens / (draft_seconds_ + costs_->seconds(step.rows + count, true));
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

void Speculator::observe(const StepOutcome& step) {
  if (!costs_) return;
  const bool has_drafts = step.drafted > 0;
  costs_->observe(step.rows, has_drafts, step.seconds);
  if (!std::exchange(asked_, false)) return;
  // Uses the recent times of such steps, including this step. A step with prompts has no known time without
  // drafts, so only the additional time of its draft rows counts.
  const bool is_measured = step.seconds > 0.0;
  const double plain = costs_->seconds(step.rows - step.drafted, has_drafts && !is_measured);
  double lost = -static_cast<double>(step.accepted) * token_seconds_;
  if (has_drafts) lost += costs_->seconds(step.rows, true) - plain;
  // Limits the charge, because drafting time includes computing prompts, which is not a wrong draft token. A
  // draft model has no drafts while it computes a prompt, and its first draft includes the time of the
  // prompt's end.
  constexpr double kMaxSteps = 2.0;
  if (has_drafted_) lost += std::min(draft_seconds_, kMaxSteps * plain);
  if (has_drafts) gains_.add(-lost / plain);
  budget_->step(is_measured ? plain : 0.0, lost);
}

std::unique_ptr<Speculator> make_speculator(const SpeculationOptions& options, const DraftSources& sources,
                                            std::size_t vocab_size, std::optional<RowCosts> costs) {
  const std::shared_ptr<AnswerHistory> history =
      options.draft_history == 0 ? nullptr : std::make_shared<AnswerHistory>(options.draft_history);
  const auto ngram = [&] { return std::make_unique<NgramSource>(history); };
  const auto source = [&]() -> std::unique_ptr<DraftSource> {
    switch (options.drafts) {
      case DraftKind::ngram:
        return ngram();
      case DraftKind::model:
      case DraftKind::mtp:
        return sources.model();
      case DraftKind::automatic:
        if (!sources.model) return ngram();
        return std::make_unique<MixedSource>(ngram(), sources.model());
      case DraftKind::custom:
        return std::make_unique<CheckedSource>(sources.custom(), vocab_size);
      case DraftKind::none:
        break;
    }
    return nullptr;
  };
  std::unique_ptr<DraftSource> drafts = source();
  if (!drafts) return nullptr;
  std::unique_ptr<DraftSource> free;
  if (options.drafts == DraftKind::automatic && sources.model) free = ngram();
  for (std::unique_ptr<DraftSource>* any : {&drafts, &free}) {
    if (sources.wrap && *any)
      *any = std::make_unique<CheckedSource>(sources.wrap(std::move(*any)), vocab_size);
  }
  return std::make_unique<Speculator>(std::move(drafts), options.tokens, std::move(costs), std::move(free),
                                      sources.follows_prompts);
}

}  // namespace tp
