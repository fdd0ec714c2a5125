// Regular languages as terms, with intersection and complement, and their derivatives.
//
// A term denotes the set of texts that may follow. A step is one character of a set, then another term, so
// terms are built from their ends. The derivative of a term by a character denotes the texts that may follow
// this character (Brzozowski 1964). Equal terms have equal numbers.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/grammar/character_automaton.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tp::constraint {

using TermId = std::uint32_t;
using CharacterSet256 = ByteSet;  // a set of classes of characters

class LanguageTerms {
 public:
  explicit LanguageTerms(LanguageBudget& budget);

  TermId never() const { return 0; }
  TermId end() const { return 1; }  // only the empty text
  TermId all() const { return 2; }
  TermId step(const CharacterSet256& set, TermId next);
  TermId either(std::vector<TermId> parts) { return combined(Kind::either, std::move(parts)); }
  TermId both(std::vector<TermId> parts) { return combined(Kind::both, std::move(parts)); }
  TermId except(TermId term);

  // A term that is defined later, and may be part of its own definition.
  TermId add_loop();
  // Defines loops. A loop that occurs in its definition without a step before it adds nothing.
  void define_loops(const std::vector<TermId>& loops, const std::vector<TermId>& definitions);

  bool contains_empty(TermId term);
  TermId derivative(TermId term, std::size_t character_class);

 private:
  enum class Kind : std::uint8_t { never, end, all, step, either, both, except, loop };
  struct Term {
    Kind kind;
    std::uint32_t set = 0;        // for a step: index into sets_
    std::vector<TermId> parts{};  // for a step: the next term; for a loop: its definition
  };

  // Counts the recursion of functions that walk through terms. The depth of a term itself is not known,
  // because loops are defined after the terms around them.
  class Descent;

  TermId intern(Term term);
  TermId combined(Kind kind, std::vector<TermId> parts);
  std::vector<TermId> with_joined_steps(const std::vector<TermId>& parts);
  std::uint32_t index_of(const CharacterSet256& set);
  TermId without(TermId term, const std::vector<TermId>& loops, std::map<TermId, TermId>& known);
  TermId derivative_of(const Term& term, std::size_t character_class);

  LanguageBudget& budget_;
  std::size_t depth_ = 0;
  std::vector<Term> terms_;
  std::map<std::tuple<Kind, std::uint32_t, std::vector<TermId>>, TermId> ids_;
  std::vector<CharacterSet256> sets_;
  std::map<std::array<std::uint64_t, 4>, std::uint32_t> set_index_;
  std::unordered_map<std::uint64_t, TermId> derivatives_;
  std::unordered_map<TermId, bool> with_empty_;
};

}  // namespace tp::constraint
