#include "runtime/speculation/suffix_automaton.h"

#include "tests/reference/random.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;

// Finds the length of the longest suffix that also ends earlier in the text, by comparing all places.
std::size_t longest_repeated_suffix(std::span<const TokenId> text) {
  std::size_t longest = 0;
  for (std::size_t end = 1; end < text.size(); ++end) {
    std::size_t length = 0;
    while (length < end && text[end - 1 - length] == text[text.size() - 1 - length]) ++length;
    longest = std::max(longest, length);
  }
  return longest;
}

void expect_matches_of(const std::vector<TokenId>& text) {
  SuffixAutomaton automaton;
  for (std::size_t size = 1; size <= text.size(); ++size) {
    automaton.push(text[size - 1]);
    const auto [length, end] = automaton.match();
    const std::span<const TokenId> before = std::span(text).first(size);
    ASSERT_EQ(length, longest_repeated_suffix(before)) << "after " << size << " tokens";
    if (length == 0) continue;
    ASSERT_LT(end, size) << "an occurrence that is not an earlier one";
    ASSERT_GE(end, length);
    ASSERT_TRUE(std::ranges::equal(before.first(end).last(length), before.last(length)))
        << "the text before " << end << " is not the suffix after " << size << " tokens";
  }
  EXPECT_EQ(automaton.size(), text.size());
}

TEST(SuffixAutomaton, FindsTheLongestRepeatedSuffixOfRandomTexts) {
  Random random(1);
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    const std::size_t alphabet = random.integer(1, 12);
    std::vector<TokenId> text(random.integer(1, 120));
    for (TokenId& token : text) token = static_cast<TokenId>(random.integer(0, alphabet - 1) * 1000003);
    expect_matches_of(text);
  }
}

TEST(SuffixAutomaton, FindsCopiedPassages) {
  Random random(2);
  for (int trial = 0; trial < 100 && !HasFailure(); ++trial) {
    std::vector<TokenId> text;
    while (text.size() < 200) {
      const bool copies = random.coin() && text.size() > 20;
      const std::size_t from = copies ? random.integer(0, text.size() - 10) : 0;
      for (std::size_t i = 0; i < 10; ++i)
        text.push_back(copies ? text[from + i] : static_cast<TokenId>(random.integer(0, 5000)));
    }
    expect_matches_of(text);
  }
}

TEST(SuffixAutomaton, FindsThePlaceThatWasTheMatchLast) {
  SuffixAutomaton automaton;
  //                         0  1  2  3  4  5  6  7  8
  for (const TokenId token : {1, 2, 3, 1, 2, 4, 1, 2}) automaton.push(token);
  EXPECT_EQ(automaton.match().length, 2U);
  EXPECT_EQ(automaton.match().end, 5U) << "1 2 4 was later than 1 2 3";
}

TEST(SuffixAutomaton, FindsTheLongestSuffixInAnyOfSeveralTexts) {
  Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t alphabet = random.integer(1, 6);
    const auto token = [&] { return static_cast<TokenId>(random.integer(0, alphabet - 1)); };
    SuffixAutomaton automaton;
    std::vector<TokenId> all;  // -1 separates the texts and occurs nowhere else
    for (std::size_t texts = random.integer(1, 8); texts > 0; --texts) {
      for (std::size_t i = random.integer(0, 25); i > 0; --i) {
        all.push_back(token());
        automaton.push(all.back());
      }
      all.push_back(-1);
      automaton.end_text();
    }
    EXPECT_EQ(automaton.size(), all.size());
    SuffixAutomaton::Cursor cursor;
    std::vector<TokenId> other;
    for (int i = 0; i < 60; ++i) {
      other.push_back(token());
      automaton.follow(cursor, other.back());
      std::size_t longest = 0;
      for (std::size_t end = 1; end <= all.size(); ++end) {
        std::size_t length = 0;
        while (length < std::min(end, other.size()) &&
               all[end - 1 - length] == other[other.size() - 1 - length])
          ++length;
        longest = std::max(longest, length);
      }
      const auto [length, end] = automaton.match(cursor);
      ASSERT_EQ(length, longest) << "trial " << trial << ", " << i;
      ASSERT_TRUE(std::ranges::equal(std::span(all).first(end).last(length), std::span(other).last(length)));
    }
  }
}

TEST(SuffixAutomaton, AddsNoStatesForAKnownText) {
  Random random(4);
  SuffixAutomaton automaton;
  std::vector<TokenId> text(1000);
  for (TokenId& token : text) token = static_cast<TokenId>(random.integer(0, 40));
  const auto add = [&] {
    for (const TokenId token : text) automaton.push(token);
    automaton.end_text();
  };
  add();
  const std::size_t bytes = automaton.bytes();
  for (int i = 0; i < 50; ++i) add();
  EXPECT_EQ(automaton.bytes(), bytes);
}

TEST(SuffixAutomaton, KnowsNothingOfATokenThatIsNew) {
  SuffixAutomaton automaton;
  EXPECT_EQ(automaton.match().length, 0U);
  for (const TokenId token : {5, 6, 7}) {
    automaton.push(token);
    EXPECT_EQ(automaton.match().length, 0U);
  }
}

TEST(SuffixAutomaton, TakesLongTexts) {
  SuffixAutomaton automaton;
  for (std::size_t i = 0; i < 300000; ++i) automaton.push(static_cast<TokenId>(i % 1000 == 0 ? i : i % 7));
  EXPECT_EQ(automaton.size(), 300000U);
  EXPECT_GE(automaton.match().length, 990U);
}

}  // namespace
}  // namespace tp
