// Numbers between bounds as a grammar.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <optional>
#include <string>
#include <string_view>

namespace tp::constraint {

// A decimal number.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // without leading zeros
  std::string fraction{};   // without trailing zeros

  // Parses a JSON number; nothing if it has more than kMaxDigits digits before or after the point.
  static std::optional<Decimal> of(std::string_view number);

  // < 0, 0 or > 0; compare_magnitude ignores the signs.
  int compare_magnitude(const Decimal& other) const;
  int compare(const Decimal& other) const;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

struct Bound {
  Decimal value{};
  bool inclusive = true;
};

// The numbers between two bounds, without exponents. Either bound may be missing.
ExprId number_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                      const std::optional<Bound>& greatest);
// Like number_between, for whole numbers.
ExprId integer_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                       const std::optional<Bound>& greatest);

}  // namespace tp::constraint
