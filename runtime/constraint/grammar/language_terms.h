// Regular languages as terms, with intersection and complement, and their derivatives.
//
// A term denotes a set of texts: what may follow. A step is one character of a set and then another term, so
// that terms are built from their ends. The derivative of a term by a character is what may follow this
// character (Brzozowski 1964). Equal terms have the same number.
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
  TermId end() const { return 1; }  // the empty text only
  TermId all() const { return 2; }
  TermId step(const CharacterSet256& set, TermId next);
  TermId either(std::vector<TermId> parts) { return combined(Kind::either, std::move(parts)); }
  TermId both(std::vector<TermId> parts) { return combined(Kind::both, std::move(parts)); }
  TermId except(TermId term);

  // A term that is defined later, and may be part of its definition.
  TermId add_loop();
  // Defines loops by terms in which they may stand without a step before them: there they add nothing.
  void define_loops(const std::vector<TermId>& loops, const std::vector<TermId>& definitions);

  bool contains_empty(TermId term);
  TermId derivative(TermId term, std::size_t character_class);

 private:
  enum class Kind : std::uint8_t { never, end, all, step, either, both, except, loop };
  struct Term {
    Kind kind;
    std::uint32_t set = 0;        // index into sets_, of a step
    std::vector<TermId> parts{};  // of a step what follows; of a loop its definition
  };

  // Counts how deep functions that walk through terms have called themselves. A term's own depth is not
  // known: loops are defined after the terms around them.
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
