#include "runtime/constraint/schema/json_numbers.h"

#include "runtime/constraint/schema/json_grammar.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

std::string without_leading_zeros(std::string digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  return digits.empty() ? "0" : digits;
}

std::string without_trailing_zeros(std::string digits) {
  digits.erase(digits.find_last_not_of('0') + 1);
  return digits;
}

int compare_whole(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
}

// Numbers without a sign. The bounds are not negative.
class MagnitudeRange {
 public:
  MagnitudeRange(ByteGrammar& grammar, Bound least, std::optional<Bound> greatest, bool has_fraction)
      : grammar_(grammar),
        min_(std::move(least)),
        greatest_(std::move(greatest)),
        has_fraction_(has_fraction) {}

  ExprId expr() {
    if (greatest_ && min_.value.compare_magnitude(greatest_->value) > 0) return grammar_.never();
    const std::string& low = min_.value.whole;
    const bool same = greatest_ && greatest_->value.whole == low;
    std::vector<ExprId> choices = {grammar_.sequence({grammar_.text(low), after_whole(true, same)})};
    if (same) return choices.front();
    const ExprId any = after_whole(false, false);
    add_longer_than(low, any, choices);
    if (greatest_)
      choices.push_back(grammar_.sequence({grammar_.text(greatest_->value.whole), after_whole(false, true)}));
    return grammar_.choice(std::move(choices));
  }

 private:
  ExprId digit(char first, char last) {
    ByteSet set;
    for (char c = first; c <= last; ++c) set.set(static_cast<std::uint8_t>(c));
    return grammar_.bytes(set);
  }

  ExprId digits(std::size_t min, std::size_t max) {
    return grammar_.repeat(digit('0', '9'), static_cast<std::uint32_t>(min), static_cast<std::uint32_t>(max));
  }

  // Adds whole parts greater than `low` and less than the upper bound's whole part, each followed by `rest`.
  void add_longer_than(const std::string& low, ExprId rest, std::vector<ExprId>& choices) {
    const std::string* high = greatest_ ? &greatest_->value.whole : nullptr;
    const auto add = [&](ExprId whole) { choices.push_back(grammar_.sequence({whole, rest})); };
    if (high != nullptr && high->size() == low.size()) return add(between(low, *high, 0, true, true));
    add(between(low, std::string(low.size(), '9'), 0, true, false));
    const std::size_t longest = high != nullptr ? high->size() - 1 : kMaxDigits;
    if (longest > low.size()) add(grammar_.sequence({digit('1', '9'), digits(low.size(), longest - 1)}));
    if (high != nullptr) add(between("1" + std::string(high->size() - 1, '0'), *high, 0, false, true));
  }

  // Numbers with equally many digits, from digit `i` on, after equal digits. `open_low` and `open_high`
  // exclude the bounds themselves.
  ExprId between(const std::string& low, const std::string& high, std::size_t i, bool open_low,
                 bool open_high) {
    return grammar_.choice(tails(low, high, i, true, true, open_low, open_high));
  }

  std::vector<ExprId> tails(const std::string& low, const std::string& high, std::size_t i, bool at_low,
                            bool at_high, bool open_low, bool open_high) {
    if (i == low.size()) {
      const bool is_out = (at_low && open_low) || (at_high && open_high);
      return {is_out ? grammar_.never() : grammar_.empty()};
    }
    if (!at_low && !at_high) return {digits(low.size() - i, low.size() - i)};
    std::vector<ExprId> choices;
    const auto add = [&](char first, char last, bool low_next, bool high_next) {
      if (first > last) return;
      choices.push_back(grammar_.sequence(
          {digit(first, last),
           grammar_.choice(tails(low, high, i + 1, low_next, high_next, open_low, open_high))}));
    };
    const char least = at_low ? low[i] : '0';
    const char greatest = at_high ? high[i] : '9';
    if (at_low && at_high && least == greatest) {
      add(least, least, true, true);
      return choices;
    }
    if (at_low) add(least, least, true, false);
    add(static_cast<char>(least + (at_low ? 1 : 0)), static_cast<char>(greatest - (at_high ? 1 : 0)), false,
        false);
    if (at_high) add(greatest, greatest, false, true);
    return choices;
  }

  // The text after the whole part. `at_low`, `at_high`: the whole part equals the lower or upper bound's.
  ExprId after_whole(bool at_low, bool at_high) {
    if (!has_fraction_) {
      const bool low_is_out = at_low && (!min_.value.fraction.empty() || !min_.inclusive);
      const bool high_is_out = at_high && greatest_->value.fraction.empty() && !greatest_->inclusive;
      return low_is_out || high_is_out ? grammar_.never() : grammar_.empty();
    }
    std::vector<ExprId> choices;
    if (may_end(0, at_low, at_high)) choices.push_back(grammar_.empty());
    choices.push_back(grammar_.sequence({grammar_.text("."), more_fraction(0, at_low, at_high)}));
    return grammar_.choice(std::move(choices));
  }

  char low_digit(std::size_t i) const {
    return i < min_.value.fraction.size() ? min_.value.fraction[i] : '0';
  }
  char high_digit(std::size_t i) const {
    return i < greatest_->value.fraction.size() ? greatest_->value.fraction[i] : '0';
  }

  // Whether the number may end after `i` digits of the fraction that equal a bound's digits.
  bool may_end(std::size_t i, bool at_low, bool at_high) const {
    if (at_low && (i < min_.value.fraction.size() || !min_.inclusive)) return false;
    return !at_high || i < greatest_->value.fraction.size() || greatest_->inclusive;
  }

  // At least one more digit of the fraction.
  ExprId more_fraction(std::size_t i, bool at_low, bool at_high) {
    if (!at_low && !at_high) return digits(1, kMaxDigits - std::min<std::size_t>(i, kMaxDigits - 1));
    if (i >= kMaxDigits) return grammar_.never();
    const auto [found, is_new] = fractions_.try_emplace({i, at_low, at_high}, 0);
    if (!is_new) return found->second;
    std::vector<ExprId> choices;
    const auto add = [&](char first, char last, bool low_next, bool high_next) {
      if (first > last) return;
      std::vector<ExprId> rest = {more_fraction(i + 1, low_next, high_next)};
      if (may_end(i + 1, low_next, high_next)) rest.push_back(grammar_.empty());
      choices.push_back(grammar_.sequence({digit(first, last), grammar_.choice(std::move(rest))}));
    };
    const char least = at_low ? low_digit(i) : '0';
    const char greatest = at_high ? high_digit(i) : '9';
    if (at_low && at_high && least == greatest) {
      add(least, least, true, true);
    } else {
      if (at_low) add(least, least, true, false);
      add(static_cast<char>(least + (at_low ? 1 : 0)), static_cast<char>(greatest - (at_high ? 1 : 0)), false,
          false);
      if (at_high) add(greatest, greatest, false, true);
    }
    const ExprId made = grammar_.as_rule(grammar_.choice(std::move(choices)));
    fractions_[{i, at_low, at_high}] = made;
    return made;
  }

  ByteGrammar& grammar_;
  Bound min_;
  std::optional<Bound> greatest_;
  bool has_fraction_;
  std::map<std::tuple<std::size_t, bool, bool>, ExprId> fractions_;
};

ExprId signed_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                      const std::optional<Bound>& greatest, bool has_fraction) {
  const auto magnitude = [](Bound bound) {
    bound.value.negative = false;
    return bound;
  };
  const Bound zero{};
  std::vector<ExprId> choices;
  if (!greatest || !greatest->value.negative) {
    const bool from_zero = !least || (least->value.negative && !least->value.is_zero());
    choices.push_back(
        MagnitudeRange(grammar, from_zero ? zero : magnitude(*least), greatest, has_fraction).expr());
  }
  if (!least || (least->value.negative && !least->value.is_zero())) {
    // Excludes -0, which would be zero again.
    const bool to_zero = !greatest || !greatest->value.negative;
    const Bound nearest = to_zero ? Bound{.value = {}, .inclusive = false} : magnitude(*greatest);
    const std::optional<Bound> farthest = least ? std::optional(magnitude(*least)) : std::nullopt;
    choices.push_back(grammar.sequence(
        {grammar.text("-"), MagnitudeRange(grammar, nearest, farthest, has_fraction).expr()}));
  }
  return choices.empty() ? grammar.never() : grammar.choice(std::move(choices));
}

}  // namespace

std::optional<Decimal> Decimal::of(std::string_view number) {
  Decimal decimal;
  decimal.negative = number.starts_with('-');
  if (decimal.negative) number.remove_prefix(1);
  int exponent = 0;
  if (const std::size_t e = number.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = number.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    number = number.substr(0, e);
  }
  const std::size_t point = std::min(number.find('.'), number.size());
  std::string whole(number.substr(0, point));
  std::string fraction(point < number.size() ? number.substr(point + 1) : "");
  if (std::abs(exponent) > 400) return std::nullopt;
  for (; exponent > 0; --exponent) {
    whole += fraction.empty() ? '0' : fraction.front();
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(0, 1, whole.empty() ? '0' : whole.back());
    if (!whole.empty()) whole.pop_back();
  }
  decimal.whole = without_leading_zeros(whole);
  decimal.fraction = without_trailing_zeros(fraction);
  if (decimal.whole.size() > kMaxDigits || decimal.fraction.size() >= kMaxDigits) return std::nullopt;
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

int Decimal::compare_magnitude(const Decimal& other) const {
  const int order = compare_whole(whole, other.whole);
  return order != 0 ? order : fraction.compare(other.fraction);
}

int Decimal::compare(const Decimal& other) const {
  if (negative != other.negative) return negative ? -1 : 1;
  return negative ? -compare_magnitude(other) : compare_magnitude(other);
}

ExprId number_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                      const std::optional<Bound>& greatest) {
  return signed_between(grammar, least, greatest, true);
}

ExprId integer_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                       const std::optional<Bound>& greatest) {
  return signed_between(grammar, least, greatest, false);
}

}  // namespace tp::constraint
