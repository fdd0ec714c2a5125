// A grammar as one automaton per rule, with edges for bytes and for calls of rules.
//
// A bounded repetition is a rule of its own. Its positions carry the number of repetitions so far, so that
// {0,1000} takes no more positions than {0,2}.
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
    Place target;  // position after the call
  };
  struct Step {
    std::uint32_t state;  // state after the step
    Place target;         // position where the step begins
  };
  struct Position {
    RuleId rule = 0;
    std::vector<ByteEdge> bytes{};
    std::vector<Place> empties{};
    std::vector<Call> calls{};
    bool ends = false;     // the rule may end here, if it has enough steps
    bool repeats = false;  // a repetition is complete here; the next place is the rule's start
    // For a rule that counts steps: the steps that begin here if the count allows them, and the place after a
    // step.
    std::vector<Step> steps{};
    std::optional<Place> after_step{};
  };
  struct Rule {
    Place start = 0;
    bool nullable = false;
    // For a repetition: its start leads to `body` after fewer than `max` repetitions, and to its end after at
    // least `min` repetitions.
    bool is_repetition = false;
    Place body = 0;
    std::uint32_t min = 0;
    std::uint32_t max = 0;
    std::shared_ptr<const CountedSteps> steps{};  // for a rule that counts steps; positions carry the count
  };

  std::vector<Position> positions;
  std::vector<Rule> rules;
  RuleId root = 0;
  // Bytes that no edge distinguishes are in the same class.
  std::array<std::uint8_t, 256> class_of{};
  std::size_t classes = 0;
  std::vector<ClassSet> sets;                                // sets of classes
  std::array<std::optional<std::uint8_t>, 256> only_byte{};  // [classes]: the byte, if the class has only one
  ByteSet alphabet;                                          // bytes on any edge
  std::vector<TokenId> controls;                             // control tokens in the grammar
};

// Throws RequestError if the grammar derives no text, or is too large.
Automaton build_automaton(ByteGrammar grammar);

// Approximate memory in use.
std::size_t bytes_of(const Automaton& automaton);

}  // namespace tp::constraint
