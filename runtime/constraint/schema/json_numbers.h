// Numbers between bounds, as grammar.
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

  // Of a number as JSON writes it; nothing if it has more than kMaxDigits digits on either side of the point.
  static std::optional<Decimal> of(std::string_view number);

  // < 0, 0 or > 0, ignoring the signs; and with them.
  int compare_magnitude(const Decimal& other) const;
  int compare(const Decimal& other) const;
  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

struct Bound {
  Decimal value{};
  bool inclusive = true;
};

// The numbers between two bounds, each of which may be missing, without exponents.
ExprId number_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                      const std::optional<Bound>& greatest);
// The same of whole numbers.
ExprId integer_between(ByteGrammar& grammar, const std::optional<Bound>& least,
                       const std::optional<Bound>& greatest);

}  // namespace tp::constraint
