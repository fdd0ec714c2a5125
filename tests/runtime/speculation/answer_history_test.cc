// Drafts from the answers to earlier requests.
#include "runtime/speculation/answer_history.h"

#include "runtime/speculation/ngram_source.h"
#include "runtime/speculation/speculator.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using Tokens = std::vector<TokenId>;

Tokens random_tokens(Random& random, std::size_t size, std::size_t alphabet) {
  Tokens tokens(size);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.integer(0, alphabet - 1));
  return tokens;
}

void remember(AnswerHistory& history, const Tokens& text) {
  history.add(text);
  history.learn(text.size());
}

// Finds the longest end of a text that occurs in one of the others before further tokens, by comparing all
// places.
std::size_t longest_end_in(const std::vector<Tokens>& others, std::span<const TokenId> text) {
  std::size_t longest = 0;
  for (const Tokens& other : others) {
    for (std::size_t end = 1; end < other.size(); ++end) {
      std::size_t length = 0;
      while (length < std::min(end, text.size()) && other[end - 1 - length] == text[text.size() - 1 - length])
        ++length;
      longest = std::max(longest, length);
    }
  }
  return longest;
}

bool goes_on_so(const std::vector<Tokens>& others, std::span<const TokenId> end,
                std::span<const TokenId> next) {
  Tokens both(end.begin(), end.end());
  both.insert(both.end(), next.begin(), next.end());
  return std::ranges::any_of(others, [&](const Tokens& other) {
    return std::search(other.begin(), other.end(), both.begin(), both.end()) != other.end();
  });
}

TEST(AnswerHistory, FindsTheLongestEndOfATextAndItsContinuations) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t alphabet = random.integer(2, 9);
    AnswerHistory history(10000);
    std::vector<Tokens> answers;
    for (std::size_t i = random.integer(1, 6); i > 0; --i)
      remember(history, answers.emplace_back(random_tokens(random, random.integer(1, 30), alphabet)));
    AnswerHistory::Cursor cursor;
    const Tokens text = random_tokens(random, 60, alphabet);
    for (std::size_t size = 1; size <= text.size(); ++size) {
      history.follow(cursor, text[size - 1]);
      const std::span<const TokenId> before = std::span(text).first(size);
      const auto [length, next] = history.match(cursor);
      ASSERT_EQ(length, longest_end_in(answers, before)) << "trial " << trial << ", " << size;
      if (length == 0) continue;
      ASSERT_FALSE(next.empty());
      ASSERT_TRUE(goes_on_so(answers, before.last(length), next)) << "trial " << trial << ", " << size;
    }
  }
}

// The history learns answers piece by piece while a text is followed, as with requests that run at the same
// time.
TEST(AnswerHistory, StaysRightWhileItGrows) {
  Random random(2);
  for (int trial = 0; trial < 200; ++trial) {
    AnswerHistory history(400);
    std::vector<Tokens> answers;
    AnswerHistory::Cursor cursor;
    Tokens text;
    while (text.size() < 200) {
      if (random.integer(0, 9) == 0)
        history.add(answers.emplace_back(random_tokens(random, random.integer(1, 40), 3)));
      history.learn(random.integer(0, 9));
      text.push_back(static_cast<TokenId>(random.integer(0, 2)));
      history.follow(cursor, text.back());
      const auto [length, next] = history.match(cursor);
      ASSERT_LE(history.tokens(), 400U);
      ASSERT_LE(length, text.size());
      if (length == 0) continue;
      ASSERT_TRUE(goes_on_so(answers, std::span(text).last(length), next));
    }
  }
}

TEST(AnswerHistory, ForgetsTheOldestAnswers) {
  Random random(3);
  AnswerHistory history(1000);
  std::vector<Tokens> answers;
  for (int i = 0; i < 100; ++i) remember(history, answers.emplace_back(random_tokens(random, 50, 50000)));
  EXPECT_LE(history.tokens(), 1000U);
  EXPECT_GE(history.tokens(), 500U);
  const auto knows = [&](const Tokens& answer) {
    AnswerHistory::Cursor cursor;
    for (std::size_t i = 0; i < 10; ++i) history.follow(cursor, answer[i]);
    return history.match(cursor).length == 10;
  };
  for (std::size_t i = 91; i < 100; ++i) EXPECT_TRUE(knows(answers[i])) << i;
  for (std::size_t i = 0; i < 80; ++i) EXPECT_FALSE(knows(answers[i])) << i;
}

TEST(AnswerHistory, KeepsTheEndOfAnAnswerThatIsTooLong) {
  Random random(4);
  AnswerHistory history(100);
  const Tokens answer = random_tokens(random, 500, 50000);
  remember(history, answer);
  EXPECT_LE(history.tokens(), 50U);
  AnswerHistory::Cursor cursor;
  for (const TokenId token : std::span(answer).last(20).first(15)) history.follow(cursor, token);
  EXPECT_EQ(history.match(cursor).length, 15U);
  EXPECT_TRUE(std::ranges::equal(history.match(cursor).next, std::span(answer).last(5)));
}

TEST(AnswerHistory, LearnsATextPieceByPiece) {
  AnswerHistory history(100);
  const auto length_of = [&](const Tokens& text) {
    AnswerHistory::Cursor cursor;
    for (const TokenId token : text) history.follow(cursor, token);
    return history.match(cursor).length;
  };
  history.add(Tokens{1, 2, 3, 4, 5, 6});
  history.add(Tokens{2, 3, 7, 8});
  EXPECT_EQ(length_of({1, 2}), 0U);
  history.learn(3);
  EXPECT_EQ(length_of({1, 2}), 2U);
  EXPECT_EQ(length_of({2, 3}), 0U) << "what follows is not known yet";
  history.learn(4);
  EXPECT_EQ(length_of({2, 3}), 2U);
  EXPECT_EQ(length_of({3, 7}), 0U);
  history.learn(100);
  EXPECT_EQ(length_of({3, 7}), 2U);
  EXPECT_EQ(history.tokens(), 12U) << "with the ends of both";
}

TEST(AnswerHistory, LetsNoMoreTextsWaitThanThereIsRoomFor) {
  AnswerHistory history(100);
  for (TokenId i = 0; i < 10; ++i) history.add(Tokens(20, i));
  history.learn(1000);
  EXPECT_EQ(history.tokens(), 2 * 21U);
}

// The documented number of bytes per token is in tp/speculation.h. Buffers double when they are full, so the
// test uses several numbers of tokens.
TEST(AnswerHistory, StaysWithinTheDocumentedMemory) {
  Random random(5);
  for (const std::size_t tokens : {60000, 90000, 150000}) {
    // A small alphabet divides states most often.
    for (const std::size_t alphabet : {2, 8, 1000, 100000}) {
      AnswerHistory history(tokens);
      for (std::size_t i = 0; i < tokens / 250; ++i) {
        remember(history, random_tokens(random, 500, alphabet));
        ASSERT_LE(history.bytes(), AnswerHistory::bytes_of(tokens)) << alphabet;
      }
      EXPECT_GT(history.tokens(), tokens / 2);
    }
  }
}

Draft draft_of(DraftSource& source, const Tokens& tokens, std::size_t prompt, const Request& request = {},
               std::uint64_t sequence = 1) {
  const DraftQuery query{
      .sequence = sequence, .tokens = tokens, .prompt_tokens = prompt, .max_tokens = 4, .request = &request};
  return source.draft(std::span(&query, 1)).front();
}

void learn(DraftSource& source, const Tokens& tokens, std::size_t prompt, const Request& request = {}) {
  source.learn_from({.sequence = 9, .tokens = tokens, .prompt_tokens = prompt, .request = &request});
}

NgramSource source_with_history() { return NgramSource(std::make_shared<AnswerHistory>(1000)); }

TEST(NgramSourceWithHistory, ProposesEarlierAnswers) {
  NgramSource source = source_with_history();
  learn(source, {1, 2, 3, 4, 5, 6, 7}, 3);
  EXPECT_EQ(draft_of(source, {1, 2, 3, 4}, 3).tokens, (Tokens{5, 6, 7})) << "up to the answer's end";
  EXPECT_EQ(draft_of(source, {8, 5}, 1, {}, 2).tokens, (Tokens{6, 7}));
  EXPECT_EQ(draft_of(source, {8, 7}, 1, {}, 3).tokens, Tokens());
}

// A long answer is learned in parts, because all sequences wait while the source learns.
TEST(NgramSourceWithHistory, LearnsALongAnswerInSeveralSteps) {
  NgramSource source(std::make_shared<AnswerHistory>(20000));
  Tokens answer(5000);
  std::iota(answer.begin(), answer.end(), 0);
  learn(source, answer, 0);
  const auto knows = [&](TokenId token, std::uint64_t sequence) {
    return !draft_of(source, {token}, 1, {}, sequence).tokens.empty();
  };
  EXPECT_TRUE(knows(100, 1));
  EXPECT_FALSE(knows(4900, 2));
  for (std::uint64_t step = 3; step < 8; ++step) knows(100, step);
  EXPECT_TRUE(knows(4900, 8));
}

TEST(NgramSourceWithHistory, TakesTheBetterOfBothMatches) {
  NgramSource source = source_with_history();
  learn(source, {1, 2, 3, 4, 5, 6, 7}, 1);
  EXPECT_EQ(draft_of(source, {4, 8, 2, 3, 4}, 3).tokens, (Tokens{5, 6, 7})) << "three tokens against one";
  EXPECT_EQ(draft_of(source, {9, 9, 3, 4, 8, 9, 9, 3, 4}, 3, {}, 2).tokens.front(), 8) << "four against two";
}

// Timing must not reveal the answers of other users.
TEST(NgramSourceWithHistory, KeepsRequestsApartThatShareNothing) {
  const Tokens text = {1, 2, 3, 4, 5, 6, 7};
  const Tokens begun = {1, 2, 3, 4};
  const Request open;
  Request salted;
  salted.cache_salt = "mine";
  Request unshared;
  unshared.cache_prompt = false;
  for (const Request& secret : {salted, unshared}) {
    NgramSource source = source_with_history();
    learn(source, text, 3, secret);
    EXPECT_EQ(draft_of(source, begun, 3, open, 1).tokens, Tokens());
    EXPECT_EQ(draft_of(source, begun, 3, secret, 2).tokens, Tokens());
    learn(source, text, 3, open);
    EXPECT_EQ(draft_of(source, begun, 3, secret, 3).tokens, Tokens());
    EXPECT_EQ(draft_of(source, begun, 3, open, 4).tokens, (Tokens{5, 6, 7}));
  }
}

TEST(NgramSourceWithHistory, LearnsHowMuchMatchesInEarlierAnswersAreWorth) {
  Random random(6);
  const Tokens answer = random_tokens(random, 60, 1000);
  const auto chance_with = [&](const Tokens& text) {
    NgramSource source = source_with_history();
    learn(source, answer, 0);
    const Draft draft = draft_of(source, text, 1);
    return draft.chances.empty() ? 0.0 : draft.chances.front();
  };
  Tokens same(answer.begin(), answer.begin() + 41);
  Tokens other = same;  // every third token differs from the answer
  for (std::size_t i = 2; i < other.size(); i += 3) other[i] = static_cast<TokenId>(2000 + i);
  EXPECT_GT(chance_with(same), 0.8);
  EXPECT_LT(chance_with(other), 0.3);
}

// A program's own source of drafts. It notes its calls.
class Listener : public DraftSource {
 public:
  explicit Listener(std::vector<std::string>& heard) : heard_(heard) {}
  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    return std::vector<Draft>(queries.size());
  }
  void learn_from(const DraftQuery& text) override {
    heard_.push_back("learn " + std::to_string(text.tokens.size()));
    if (text.sequence == 3) throw std::bad_alloc();
    if (text.sequence == 4) throw std::runtime_error("the disk is full");
  }
  void end(std::uint64_t sequence) override { heard_.push_back("end " + std::to_string(sequence)); }

 private:
  std::vector<std::string>& heard_;
};

TEST(Speculator, ReportsAnswersToASourceUntilItFails) {
  std::vector<std::string> heard;
  Speculator speculator(std::make_unique<Listener>(heard), 4);
  const Tokens text = {1, 2, 3};
  speculator.end({.sequence = 1, .tokens = text, .prompt_tokens = 2});
  speculator.end({.sequence = 2, .tokens = text, .prompt_tokens = 3});
  speculator.end({.sequence = 3, .tokens = text, .prompt_tokens = 2});
  EXPECT_EQ(heard, (std::vector<std::string>{"learn 3", "end 1", "end 2", "learn 3", "end 3"}));
  EXPECT_EQ(speculator.counts().failure, "");
  speculator.end({.sequence = 4, .tokens = text, .prompt_tokens = 2});
  EXPECT_EQ(speculator.counts().failure, "the disk is full");
  speculator.end({.sequence = 5, .tokens = text, .prompt_tokens = 2});
  EXPECT_EQ(heard.size(), 6U);
}

TEST(Speculator, RemembersAnAnswerOnceAndForBothOfItsSources) {
  const SpeculationOptions options{.drafts = DraftKind::automatic, .tokens = 4, .draft_history = 8};
  std::vector<std::string> heard;
  const std::unique_ptr<Speculator> speculator = make_speculator(
      options, {.model = [&] { return std::make_unique<Listener>(heard); }}, 50, std::nullopt);
  const Tokens text = {1, 2, 3};
  speculator->end({.sequence = 1, .tokens = text, .prompt_tokens = 1});
  const DraftQuery query{
      .sequence = 2, .tokens = std::span(text).first(2), .prompt_tokens = 1, .max_tokens = 4};
  const std::vector<Draft> drafts = speculator->draft(std::span(&query, 1), {1, 1, 16});
  EXPECT_EQ(drafts.front().tokens, Tokens{3});
  EXPECT_EQ(heard, (std::vector<std::string>{"learn 3", "end 1"}));
}

}  // namespace
}  // namespace tp
