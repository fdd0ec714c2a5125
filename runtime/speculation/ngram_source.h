// Draft tokens from the sequence itself and from earlier answers.
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

// Expects a sequence to continue as it did after an earlier occurrence of its last tokens, and uses the
// longest repeated text. Every new token shows whether such a draft would have been right, so chances are
// known without trying drafts. With a history, a draft may come from an earlier answer instead if that is
// more likely to be right.
class NgramSource : public DraftSource {
 public:
  // `history` may be shared with other sources, if learn_from() is called for only one of them; null: none.
  // Long answers are learnt in parts, before drafts.
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
  MatchRates rates_;  // rates of all sequences
  MatchRates history_rates_;
};

}  // namespace tp
