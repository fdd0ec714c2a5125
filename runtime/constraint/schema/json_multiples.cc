#include "runtime/constraint/schema/json_multiples.h"

#include "runtime/constraint/grammar/automaton.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "runtime/constraint/schema/json_grammar.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxRemainders = 15000;
constexpr std::size_t kMaxExactDigits = 15;
constexpr std::size_t kMinExactDigits = 6;

// A step: divisor * 10^zeros, or divisor / 10^places.
struct DecimalStep {
  std::uint64_t divisor = 1;
  std::size_t zeros = 0;
  std::size_t places = 0;
};

std::optional<DecimalStep> decimal_step(const Decimal& step, bool integer) {
  std::string digits = step.whole + step.fraction;
  DecimalStep result{.places = step.fraction.size()};
  for (; result.places == 0 && digits.ends_with('0'); digits.pop_back()) ++result.zeros;
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.size() > kMaxExactDigits) return std::nullopt;
  result.divisor = std::stoull(digits);
  // A whole number is a multiple of 2.5 only if it is a multiple of 5.
  for (; integer && result.places > 0; --result.places)
    result.divisor /= std::gcd(result.divisor, std::uint64_t{10});
  return result;
}

// How far a number has been read. Numbers without decimal places end with `zeros` zeros. These zeros may
// begin anywhere, so several readings are current at the same time.
struct Reading {
  enum Part : std::uint8_t { begin, after_sign, zero, whole, last_zeros, fraction };
  Part part = begin;
  std::size_t digits = 0;       // digits of the fraction so far, or missing zeros
  std::uint64_t remainder = 0;  // remainder of the digits so far
  friend auto operator<=>(const Reading&, const Reading&) = default;
};

class MultipleReader {
 public:
  explicit MultipleReader(const DecimalStep& step) : step_(step) {}

  bool ends(const Reading& at) const {
    if (at.part == Reading::zero) return true;
    if (at.part == Reading::last_zeros) return at.digits == 0;
    if (at.part == Reading::whole) return step_.zeros == 0 && scaled(at.remainder, step_.places) == 0;
    return at.part == Reading::fraction && at.digits > 0 &&
           scaled(at.remainder, step_.places - at.digits) == 0;
  }

  std::vector<Reading> next(const Reading& at, char c) const {
    if (c == '-') return at.part == Reading::begin ? one({.part = Reading::after_sign}) : none();
    if (c == '.') {
      const bool may = step_.places > 0 && (at.part == Reading::zero || at.part == Reading::whole);
      return may ? one({.part = Reading::fraction, .remainder = at.remainder}) : none();
    }
    const std::uint64_t remainder = (at.remainder * 10 + static_cast<std::uint64_t>(c - '0')) % step_.divisor;
    switch (at.part) {
      case Reading::begin:
      case Reading::after_sign:
        return one(c == '0' ? Reading{.part = Reading::zero}
                            : Reading{.part = Reading::whole, .remainder = remainder});
      case Reading::zero:
        return none();
      case Reading::whole: {
        std::vector<Reading> all = one({.part = Reading::whole, .remainder = remainder});
        if (c == '0' && at.remainder == 0 && step_.zeros > 0)
          all.push_back({.part = Reading::last_zeros, .digits = step_.zeros - 1});
        return all;
      }
      case Reading::last_zeros:
        return c == '0' && at.digits > 0 ? one({.part = Reading::last_zeros, .digits = at.digits - 1})
                                         : none();
      case Reading::fraction:
        return at.digits < step_.places
                   ? one({.part = Reading::fraction, .digits = at.digits + 1, .remainder = remainder})
                   : none();
    }
    return none();
  }

 private:
  static std::vector<Reading> none() { return {}; }
  static std::vector<Reading> one(const Reading& reading) { return {reading}; }

  std::uint64_t scaled(std::uint64_t remainder, std::size_t places) const {
    for (; places > 0; --places) remainder = remainder * 10 % step_.divisor;
    return remainder;
  }

  DecimalStep step_;
};

// The texts that both an automaton of bounds and the reader of multiples allow.
class BoundedMultiples {
 public:
  BoundedMultiples(StateMachine& bounds, const MultipleReader& reader) : bounds_(bounds), reader_(reader) {}

  // Returns nothing if there are too many states.
  std::optional<std::vector<CountedSteps::State>> states(ByteGrammar& grammar) {
    number_of({bounds_.start(), Reading()});
    std::vector<CountedSteps::State> states;
    for (std::size_t i = 0; i < found_.size() && found_.size() <= kMaxRemainders; ++i) {
      const auto [bound, reading] = found_[i];
      CountedSteps::State& state =
          states.emplace_back(CountedSteps::State{.ends = bounds_.ends(bound) && reader_.ends(reading)});
      for (const auto& [target, bytes] : steps_from(bound, reading))
        state.steps.push_back({expr_of(bytes, grammar), target});
    }
    grammar.budget().charge(kWorkPerState * found_.size());
    if (found_.size() > kMaxRemainders) return std::nullopt;
    return states;
  }

 private:
  using Both = std::pair<StateId, Reading>;

  static constexpr std::uint64_t kWorkPerState = 8;

  std::uint32_t number_of(const Both& both) {
    const auto [found, is_new] = numbers_.try_emplace(both, static_cast<std::uint32_t>(found_.size()));
    if (is_new) found_.push_back(both);
    return found->second;
  }

  std::map<std::uint32_t, ByteSet> steps_from(StateId bound, const Reading& reading) {
    std::map<std::uint32_t, ByteSet> bytes;  // by target
    for (const char c : std::string_view("-.0123456789")) {
      const StateId next = bounds_.next(bound, static_cast<std::uint8_t>(c));
      if (next == kDead) continue;
      for (const Reading& after : reader_.next(reading, c))
        bytes[number_of({next, after})].set(static_cast<std::uint8_t>(c));
    }
    return bytes;
  }

  ExprId expr_of(const ByteSet& bytes, ByteGrammar& grammar) {
    const auto [found, is_new] = exprs_.try_emplace(bytes.to_string(), 0);
    if (is_new) found->second = grammar.bytes(bytes);
    return found->second;
  }

  StateMachine& bounds_;
  const MultipleReader& reader_;
  std::map<Both, std::uint32_t> numbers_;
  std::vector<Both> found_;
  std::map<std::string, ExprId> exprs_;
};

Bound largest(std::size_t digits, bool negative) {
  return {.value = {.negative = negative, .whole = std::string(digits, '9')}};
}

}  // namespace

std::optional<ExprId> multiples(ByteGrammar& grammar, const Decimal& step, std::optional<Bound> least,
                                std::optional<Bound> greatest, bool integer) {
  const std::optional<DecimalStep> decimal = decimal_step(step, integer);
  if (!decimal || decimal->divisor > kMaxRemainders) return std::nullopt;
  const std::size_t remainders = decimal->divisor * (decimal->places + 1) + decimal->zeros;
  const std::size_t digits = std::min(kMaxRemainders / (2 * remainders), kMaxExactDigits);
  if ((!least || !greatest) && digits < kMinExactDigits) return std::nullopt;
  const auto reach = [&](const std::optional<Bound>& bound) {  // a given bound may have more digits
    return std::min<std::size_t>(bound ? std::max(bound->value.whole.size() + 1, digits) : digits,
                                 kMaxDigits);
  };
  if (!least) least = largest(greatest && greatest->value.negative ? reach(greatest) : digits, true);
  if (!greatest) greatest = largest(least->value.negative ? digits : reach(least), false);
  ByteGrammar scratch = grammar.scratch();
  scratch.root = scratch.add_rule();
  const bool has_places = decimal->places > 0;
  const ExprId between =
      has_places ? number_between(scratch, least, greatest) : integer_between(scratch, least, greatest);
  scratch.define(scratch.root, scratch.choice({between, scratch.text("")}));  // derives at least one text
  const Automaton automaton = build_automaton(std::move(scratch));
  StateMachine bounds(automaton);
  std::optional<std::vector<CountedSteps::State>> states =
      BoundedMultiples(bounds, MultipleReader(*decimal)).states(grammar);
  if (!states) return std::nullopt;
  return grammar.counted({std::move(*states), 1, kUnbounded});
}

}  // namespace tp::constraint
