#include "runtime/constraint/grammar/code_points.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <map>
#include <string>

namespace tp::constraint {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

ByteSet byte_range(std::uint8_t first, std::uint8_t last) {
  ByteSet set;
  for (unsigned byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

// Writes sets of characters as alternatives of sequences of byte ranges, in UTF-8. Sequences share equal
// ends.
class Utf8Ranges {
 public:
  explicit Utf8Ranges(ByteGrammar& grammar) : grammar_(grammar) {}

  void add(char32_t first, char32_t last) {
    for (const char32_t longest : {0x7F, 0x7FF, 0xFFFF, 0x10FFFF}) {
      if (first > longest) continue;
      add_of_length(first, std::min<char32_t>(last, longest));
      if (last <= longest) return;
      first = longest + 1;
    }
  }

  ExprId expr() {
    std::vector<ExprId> choices;
    for (const auto& [tail, heads] : heads_) {
      const ExprId head = grammar_.bytes(heads);
      choices.push_back(tail == kNoTail ? head : grammar_.sequence({head, tail}));
    }
    return choices.empty() ? grammar_.never() : grammar_.choice(std::move(choices));
  }

 private:
  static constexpr ExprId kNoTail = 0xFFFFFFFF;

  // Splits the range until all of its bytes vary independently. All characters have equally many bytes.
  void add_of_length(char32_t first, char32_t last) {
    std::string low;
    utf8::append(low, first);
    for (std::size_t tail = 1; tail < low.size(); ++tail) {
      const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
      if ((first & ~mask) == (last & ~mask)) continue;
      if ((first & mask) != 0) {
        add_of_length(first, first | mask);
        return add_of_length((first | mask) + 1, last);
      }
      if ((last & mask) != mask) {
        add_of_length(first, (last & ~mask) - 1);
        return add_of_length(last & ~mask, last);
      }
    }
    std::string high;
    utf8::append(high, last);
    ExprId tail = kNoTail;
    for (std::size_t i = low.size() - 1; i > 0; --i) {
      const ExprId range = range_of(low[i], high[i]);
      tail = tail == kNoTail ? range : sequence_of(range, tail);
    }
    heads_[tail] |= byte_range(static_cast<std::uint8_t>(low[0]), static_cast<std::uint8_t>(high[0]));
  }

  ExprId range_of(char low, char high) {
    const auto [found, is_new] = ranges_.try_emplace({low, high}, 0);
    if (is_new)
      found->second =
          grammar_.bytes(byte_range(static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high)));
    return found->second;
  }

  ExprId sequence_of(ExprId head, ExprId tail) {
    const auto [found, is_new] = sequences_.try_emplace({head, tail}, 0);
    if (is_new) found->second = grammar_.sequence({head, tail});
    return found->second;
  }

  ByteGrammar& grammar_;
  std::map<std::pair<char, char>, ExprId> ranges_;
  std::map<std::pair<ExprId, ExprId>, ExprId> sequences_;
  std::map<ExprId, ByteSet> heads_;  // first bytes, by the expression after them
};

}  // namespace

void CodePoints::add(char32_t first, char32_t last) {
  if (first < kFirstSurrogate && first <= last)
    ranges_.emplace_back(first, std::min<char32_t>(last, kFirstSurrogate - 1));
  if (last > kLastSurrogate && first <= last)
    ranges_.emplace_back(std::max<char32_t>(first, kLastSurrogate + 1), last);
}

std::vector<std::pair<char32_t, char32_t>> CodePoints::ranges() const {
  auto sorted = ranges_;
  std::ranges::sort(sorted);
  std::vector<std::pair<char32_t, char32_t>> merged;
  for (const auto& range : sorted) {
    if (!merged.empty() && range.first <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, range.second);
    else
      merged.push_back(range);
  }
  return merged;
}

CodePoints CodePoints::complement() const {
  CodePoints others;
  char32_t next = 0;
  for (const auto& [first, last] : ranges()) {
    if (first > next) others.add(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) others.add(next, kLast);
  return others;
}

CodePoints CodePoints::without(const CodePoints& others) const {
  CodePoints outside = complement();
  outside.add(others);
  return outside.complement();
}

CodePoints CodePoints::in_both_cases() const {
  CodePoints both = *this;
  for (char32_t upper = 'A'; upper <= 'Z'; ++upper) {
    const char32_t lower = upper - 'A' + 'a';
    if (contains(upper)) both.add(lower, lower);
    if (contains(lower)) both.add(upper, upper);
  }
  return both;
}

bool CodePoints::contains(char32_t character) const {
  return std::ranges::any_of(
      ranges_, [&](const auto& range) { return range.first <= character && character <= range.second; });
}

ExprId CodePoints::expr(ByteGrammar& grammar) const {
  Utf8Ranges utf8(grammar);
  for (const auto& [first, last] : ranges()) utf8.add(first, last);
  return utf8.expr();
}

}  // namespace tp::constraint
