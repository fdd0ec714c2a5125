// Draft tokens from the sequence itself.
#pragma once

#include "runtime/speculation/match_rates.h"
#include "runtime/speculation/suffix_automaton.h"
#include "tp/draft_source.h"

#include <cstddef>
#include <unordered_map>

namespace tp {

// Guesses that a sequence goes on as it did after an earlier occurrence of its last tokens: of the longest
// text that has occurred before. Every token shows whether such a guess would have been right, so that its
// chances are known without trying it out.
class NgramSource : public DraftSource {
 public:
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void end(std::uint64_t sequence) override { texts_.erase(sequence); }

 private:
  struct Text {
    SuffixAutomaton automaton;
    MatchRates rates;
  };

  void follow(Text& text, const DraftQuery& query);
  Draft draft(const Text& text, const DraftQuery& query) const;

  std::unordered_map<std::uint64_t, Text> texts_;
  MatchRates rates_;  // of all sequences
};

}  // namespace tp
