// Sets of Unicode characters, and expressions for their UTF-8 bytes.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tp::constraint {

// Never contains surrogates, which UTF-8 cannot encode.
class CodePoints {
 public:
  CodePoints() = default;
  CodePoints(std::initializer_list<std::pair<char32_t, char32_t>> ranges) {
    for (const auto& [first, last] : ranges) add(first, last);
  }

  static CodePoints all() { return {{0, kLast}}; }

  void add(char32_t first, char32_t last);
  void add(const CodePoints& others) {
    ranges_.insert(ranges_.end(), others.ranges_.begin(), others.ranges_.end());
  }
  CodePoints complement() const;
  CodePoints without(const CodePoints& others) const;
  // Adds the other case of ASCII letters. JavaScript, Python and Perl differ in the case of other letters.
  CodePoints in_both_cases() const;
  bool contains(char32_t character) const;
  bool empty() const { return ranges_.empty(); }
  std::size_t parts() const { return ranges_.size(); }  // number of added ranges

  // Sorted, without overlaps.
  std::vector<std::pair<char32_t, char32_t>> ranges() const;

  // Derives one character of the set, in UTF-8.
  ExprId expr(ByteGrammar& grammar) const;

  static constexpr char32_t kLast = 0x10FFFF;

 private:
  std::vector<std::pair<char32_t, char32_t>> ranges_;
};

}  // namespace tp::constraint
