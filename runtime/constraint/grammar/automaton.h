// A grammar as one automaton per rule, with edges for bytes and for calls of rules.
//
// A repetition with bounds is a rule of its own, whose positions carry the number of repetitions so far, so
// that {0,1000} takes no more positions than {0,2}.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tp::constraint {

using Place = std::uint32_t;  // index of a position

// A set of classes of bytes.
using ClassSet = ByteSet;

struct Automaton {
  struct ByteEdge {
    std::uint32_t set;  // index into `sets`
    Place target;
  };
  struct Call {
    RuleId rule;
    Place target;  // where it goes on
  };
  struct Step {
    std::uint32_t state;  // where it leads to
    Place target;         // where it begins
  };
  struct Position {
    RuleId rule = 0;
    std::vector<ByteEdge> bytes{};
    std::vector<Place> empties{};
    std::vector<Call> calls{};
    bool ends = false;     // the rule, if it has enough steps
    bool repeats = false;  // one more repetition is complete; the next place is the rule's start
    // For a rule that counts steps: the steps that begin here if the count allows, and the place after a
    // step.
    std::vector<Step> steps{};
    std::optional<Place> after_step{};
  };
  struct Rule {
    Place start = 0;
    bool nullable = false;
    // Of a repetition: from its start, `body` is reached with fewer than `max`, its end with `min`.
    bool is_repetition = false;
    Place body = 0;
    std::uint32_t min = 0;
    std::uint32_t max = 0;
    std::shared_ptr<const CountedSteps> steps{};  // of a rule that counts them; positions carry the number
  };

  std::vector<Position> positions;
  std::vector<Rule> rules;
  RuleId root = 0;
  // Bytes that no edge tells apart are in the same class.
  std::array<std::uint8_t, 256> class_of{};
  std::size_t classes = 0;
  std::vector<ClassSet> sets;                                // of classes
  std::array<std::optional<std::uint8_t>, 256> only_byte{};  // of classes that have a single one
  ByteSet alphabet;                                          // bytes on any edge
  std::vector<TokenId> controls;                             // control tokens that the grammar names
};

// Throws RequestError if the grammar derives no text, or is too large.
Automaton build_automaton(ByteGrammar grammar);

}  // namespace tp::constraint
