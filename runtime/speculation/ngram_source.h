// Draft tokens from the sequence itself, and from earlier answers.
#pragma once

#include "runtime/speculation/answer_history.h"
#include "runtime/speculation/match_rates.h"
#include "runtime/speculation/suffix_automaton.h"
#include "tp/draft_source.h"

#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tp {

// Guesses that a sequence goes on as it did after an earlier occurrence of its last tokens: of the longest
// text that has occurred before. Every token shows whether such a guess would have been right, so that its
// chances are known without trying it out. With a history it guesses likewise from earlier answers, where
// that is more likely to be right.
class NgramSource : public DraftSource {
 public:
  // `history` may be shared with other sources, of which one learns; null: none. Long answers are learnt
  // little by little, before drafts.
  explicit NgramSource(std::shared_ptr<AnswerHistory> history = nullptr) : history_(std::move(history)) {}

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void learn_from(const DraftQuery& text) override;
  void end(std::uint64_t sequence) override { texts_.erase(sequence); }

 private:
  struct Text {
    SuffixAutomaton automaton;
    MatchRates rates;
    AnswerHistory::Cursor in_history;
    MatchRates history_rates;
  };

  void follow(Text& text, const DraftQuery& query);
  void follow_history(Text& text, const DraftQuery& query, std::size_t place);
  Draft draft(const Text& text, const DraftQuery& query) const;
  Draft draft_from_history(const Text& text, const DraftQuery& query) const;
  bool uses_history(const DraftQuery& query) const;

  std::unordered_map<std::uint64_t, Text> texts_;
  std::shared_ptr<AnswerHistory> history_;
  MatchRates rates_;  // of all sequences
  MatchRates history_rates_;
};

}  // namespace tp
