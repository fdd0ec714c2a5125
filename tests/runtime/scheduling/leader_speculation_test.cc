// Draft tokens in the leader: they never change a text, and right ones save steps.
#include "runtime/speculation/speculator.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tests/runtime/speculation/nearly_right_source.h"

#include <algorithm>
#include <new>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::chunk_sizes;
using test::continuation;
using test::expect_all_free;
using test::LeaderRun;
using test::limits_of;
using test::NearlyRightSource;
using test::prompt_of;

using Sizes = std::vector<std::size_t>;

std::unique_ptr<Speculator> speculator_of(std::size_t max, std::size_t wrong = 0) {
  return std::make_unique<Speculator>(std::make_unique<NearlyRightSource>(wrong), max);
}

// Returns a leader with room for everything.
LeaderRun drafting_run(std::size_t max, std::size_t wrong = 0, std::size_t sequences = 4) {
  return LeaderRun(200, 4, limits_of(16, sequences), {std::nullopt}, 0, speculator_of(max, wrong));
}

// Notes each query's number of tokens and its limit of draft tokens.
class NotingSource : public DraftSource {
 public:
  using Asked = std::vector<std::pair<std::size_t, std::size_t>>;

  explicit NotingSource(Asked& asked) : asked_(asked) {}

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    for (const DraftQuery& query : queries) asked_.emplace_back(query.tokens.size(), query.max_tokens);
    return std::vector<Draft>(queries.size());
  }
  void end(std::uint64_t /*sequence*/) override {}

 private:
  Asked& asked_;
};

// The source is asked in the step after the tokens were computed, so the model's hidden states are still
// there.
TEST(LeaderSpeculation, AsksASourceThatFollowsPromptsAboutComputedTokens) {
  for (const bool follows : {false, true}) {
    NotingSource::Asked asked;
    auto speculator = std::make_unique<Speculator>(std::make_unique<NotingSource>(asked), 2, std::nullopt,
                                                   nullptr, follows);
    LeaderRun run(200, 4, limits_of(16, 4), {std::nullopt}, 0, std::move(speculator));
    run.add(prompt_of(40), 3);
    run.run();
    const NotingSource::Asked expected = {{17, 0}, {33, 0}, {41, 1}};
    EXPECT_EQ(asked, follows ? expected : NotingSource::Asked({{41, 1}}));
  }
}

TEST(LeaderSpeculation, SavesAStepForEveryRightGuess) {
  LeaderRun run = drafting_run(4);
  const RequestId id = run.add(prompt_of(6), 21);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{6});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(chunk_sizes(run.step()), Sizes{5}) << "a token and four draft tokens";
  EXPECT_FALSE(run.leader.has_work());
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 21));
  EXPECT_EQ(run.received[id].reasons[0], FinishReason::length);
  const SpeculationCounts counts = run.leader.status().speculation;
  EXPECT_EQ(counts.drafts, 4U);
  EXPECT_EQ(counts.drafted_tokens(), 16U);
  EXPECT_EQ(counts.accepted_tokens(), 16U);
  EXPECT_EQ(run.leader.status().generated_tokens, 21U);
  expect_all_free(run);
}

TEST(LeaderSpeculation, GivesUpGuessesWhoseStepsTakeTooLongAndTriesThemAgain) {
  // All draft tokens are right, and the measured costs say that their rows are nearly free.
  auto speculator = std::make_unique<Speculator>(std::make_unique<NearlyRightSource>(0), 4,
                                                 RowCosts({{1, 0.01}, {16, 0.0101}}));
  LeaderRun run(200, 4, limits_of(16, 4), {std::nullopt}, 0, std::move(speculator));
  run.seconds_of = [](const PlannedStep& step) {
    const std::size_t rows = step.forward.tokens.size();
    return rows == 1 ? 0.01 : 0.02 * static_cast<double>(rows);
  };
  const RequestId id = run.add(prompt_of(6), 300);
  run.run();
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 300));
  EXPECT_GT(run.leader.status().speculation.drafts, 1U);
  EXPECT_LT(run.leader.status().speculation.drafts, 20U);
}

TEST(LeaderSpeculation, KeepsTheTokensBeforeAWrongDraftTokenAndTheModelsToken) {
  LeaderRun run = drafting_run(5, 1);  // all draft tokens are wrong
  const RequestId id = run.add(prompt_of(6), 10);
  run.run();
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 10));
  EXPECT_EQ(run.steps, 10U);
  const SpeculationCounts counts = run.leader.status().speculation;
  EXPECT_GT(counts.drafted_tokens(), 0U);
  EXPECT_EQ(counts.accepted_tokens(), 0U);
}

TEST(LeaderSpeculation, DraftsNoTokensAfterTheLastOne) {
  LeaderRun run = drafting_run(8);
  const RequestId id = run.add(prompt_of(6), 4);
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{6});
  EXPECT_EQ(chunk_sizes(run.step()), Sizes{3}) << "two draft tokens, after which the fourth token is chosen";
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 4));
  EXPECT_FALSE(run.leader.has_work());
}

TEST(LeaderSpeculation, ReportsDraftCountsInEveryToken) {
  LeaderRun run = drafting_run(3);
  Request request;
  request.prompt = prompt_of(5);
  request.max_tokens = 6;
  request.sampling.temperature = 0.0F;
  std::vector<std::pair<std::size_t, std::size_t>> counts;
  run.leader.submit(request, [&](const Event& event) {
    if (const auto* token = std::get_if<TokenEvent>(&event))
      counts.emplace_back(token->drafted_tokens, token->accepted_tokens);
  });
  run.run();
  using Counts = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(counts, (Counts{{0, 0}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 3}}));
}

TEST(LeaderSpeculation, EndsAtAStopTokenAmongTheGuesses) {
  const std::vector<TokenId> text = continuation(prompt_of(6), 30);
  for (std::size_t end = 1; end < 14; ++end) {
    if (std::ranges::find(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), text[end]) !=
        text.begin() + static_cast<std::ptrdiff_t>(end))
      continue;
    LeaderRun run = drafting_run(5);
    Request request;
    request.prompt = prompt_of(6);
    request.max_tokens = 30;
    request.sampling.temperature = 0.0F;
    request.stop_token_ids = {text[end]};
    const RequestId id = run.add(request);
    run.run();
    EXPECT_EQ(run.received[id].tokens[0],
              std::vector(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end) + 1));
    EXPECT_EQ(run.received[id].reasons[0], FinishReason::stop);
    expect_all_free(run);
  }
}

// Bans depend on the tokens before a row: `bad_words` on their ids, and `min_tokens` on their number.
TEST(LeaderSpeculation, AppliesMinTokensAndBadWordsAfterEveryDraftToken) {
  const std::vector<TokenId> text = continuation(prompt_of(6), 30);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 20;
  request.min_tokens = 8;
  request.sampling.temperature = 0.0F;
  request.stop_token_ids = {text[5], text[7]};  // the first stop token comes before min_tokens
  request.bad_words_ids = {{text[2], text[3]}};
  std::vector<std::vector<TokenId>> answers;
  for (const std::size_t max : {0U, 1U, 3U, 8U, 15U}) {
    for (const std::size_t wrong : {0U, 2U, 5U}) {
      LeaderRun run(200, 4, limits_of(16, 4), {std::nullopt}, 0,
                    max == 0 ? nullptr : speculator_of(max, wrong));
      const RequestId id = run.add(request);
      run.run();
      answers.push_back(run.received[id].tokens[0]);
      EXPECT_EQ(answers.back(), answers.front()) << max << " draft tokens, 1 of " << wrong << " wrong";
    }
  }
  EXPECT_NE(answers.front()[3], text[3]) << "the bad word was not ruled out, the test proves nothing";
}

TEST(LeaderSpeculation, LeavesRequestsAloneThatDoNotWantItOrHaveACallback) {
  LeaderRun run = drafting_run(4);
  Request request;
  request.prompt = prompt_of(6);
  request.max_tokens = 10;
  request.sampling.temperature = 0.0F;
  request.speculate = false;
  const RequestId plain = run.add(request);
  run.run();
  request.speculate = true;
  request.allowed_tokens = [&](std::span<const TokenId> generated) {
    const std::vector<TokenId> text = continuation(prompt_of(6), 10);
    EXPECT_TRUE(std::ranges::equal(generated, std::span(text).first(generated.size())));
    TokenMask all(LeaderRun::kVocabulary);
    for (TokenId token = 0; token < 97; ++token) all.add(token);
    return all;
  };
  const RequestId restricted = run.add(request);
  run.run();
  EXPECT_EQ(run.leader.status().speculation.drafts, 0U);
  for (const RequestId id : {plain, restricted})
    EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 10));
}

TEST(LeaderSpeculation, UsesOnlyTheRoomThatPromptsAndOtherTokensLeave) {
  LeaderRun run(200, 4, limits_of(8, 8), {std::nullopt}, 0, speculator_of(7));
  for (int i = 0; i < 3; ++i) run.add(prompt_of(2, static_cast<TokenId>(20 * i)), 40);
  while (run.leader.status().decoding < 3) run.step();
  const Forward without_prompt = run.step();
  EXPECT_EQ(without_prompt.tokens.size(), 8U) << "three tokens and five draft tokens";
  run.add(prompt_of(40, 90), 4);
  const Forward with_prompt = run.step();
  EXPECT_EQ(with_prompt.tokens.size(), 8U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(with_prompt.chunks[i].tokens, 1U) << "the prompt has the rest";
  run.run();
}

TEST(LeaderSpeculation, PreemptsNobody) {
  // The texts of two sequences fill the cache exactly.
  LeaderRun run(10, 4, limits_of(16, 2), {std::nullopt}, 0, speculator_of(15));
  const RequestId first = run.add(prompt_of(4), 16);
  const RequestId second = run.add(prompt_of(4, 50), 16);
  run.run();
  EXPECT_EQ(run.leader.status().preemptions, 0U);
  EXPECT_EQ(run.received[first].tokens[0], continuation(prompt_of(4), 16));
  EXPECT_EQ(run.received[second].tokens[0], continuation(prompt_of(4, 50), 16));
}

TEST(LeaderSpeculation, PublishesOnlyAcceptedTokens) {
  LeaderRun run = drafting_run(15, 3);
  const RequestId first = run.add(prompt_of(6), 40);
  run.run();
  // The second request's prompt ends in the middle of the first answer, so it finds blocks of that answer.
  std::vector<TokenId> prompt = prompt_of(6);
  const std::vector<TokenId> answer = run.received[first].tokens[0];
  prompt.insert(prompt.end(), answer.begin(), answer.begin() + 20);
  const RequestId second = run.add(prompt, 10);
  run.run();
  EXPECT_EQ(run.received[second].cached_tokens, 24U);
  EXPECT_EQ(run.received[second].tokens[0], continuation(prompt, 10));
}

TEST(LeaderSpeculation, RecomputesAcceptedDraftTokensIfAStateCannotBeCut) {
  const auto steps_with = [](std::size_t wrong) {
    LeaderRun run(200, 4, limits_of(16, 2), {std::nullopt}, 2 * kStatesPerSequence, speculator_of(4, wrong));
    const RequestId id = run.add(prompt_of(6), 41);
    run.run();
    EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 41));
    expect_all_free(run);
    return run.steps;
  };
  EXPECT_LT(steps_with(0), 14U) << "boundaries with snapshots take a step without draft tokens";
  EXPECT_LE(steps_with(1), 41U);
  EXPECT_LT(steps_with(6), 41U);
}

TEST(LeaderSpeculation, KeepsSeveralStepsInFlight) {
  LeaderOptions limits = limits_of(16, 6);
  limits.engine.pipeline = 3;
  LeaderRun run(200, 4, limits, {std::nullopt}, 0, speculator_of(3, 4));
  std::vector<RequestId> ids;
  for (TokenId i = 0; i < 6; ++i) ids.push_back(run.add(prompt_of(3, 10 * i), 25));
  while (run.leader.has_work()) {
    while (run.in_flight() < 3 && !run.plan().tokens.empty()) continue;
    if (run.in_flight() > 0) run.finish_step();
  }
  for (TokenId i = 0; i < 6; ++i)
    EXPECT_EQ(run.received[ids[static_cast<std::size_t>(i)]].tokens[0],
              continuation(prompt_of(3, 10 * i), 25));
  EXPECT_GT(run.leader.status().speculation.accepted_tokens(), 0U);
  EXPECT_LT(run.leader.status().speculation.accepted_tokens(),
            run.leader.status().speculation.drafted_tokens());
}

// Fails as if memory were exhausted.
class ExhaustedSource : public DraftSource {
 public:
  std::vector<Draft> draft(std::span<const DraftQuery> /*queries*/) override { throw std::bad_alloc(); }
  void end(std::uint64_t sequence) override { ended.push_back(sequence); }
  std::vector<std::uint64_t> ended;
};

TEST(LeaderSpeculation, GoesOnWithoutDraftTokensIfMemoryIsShort) {
  auto source = std::make_unique<ExhaustedSource>();
  const ExhaustedSource& exhausted = *source;
  LeaderRun run(200, 4, limits_of(16, 4), {std::nullopt}, 0,
                std::make_unique<Speculator>(std::move(source), 4));
  const RequestId id = run.add(prompt_of(6), 10);
  run.run();
  EXPECT_EQ(run.received[id].tokens[0], continuation(prompt_of(6), 10));
  EXPECT_EQ(run.leader.status().speculation.drafts, 0U);
  EXPECT_GT(exhausted.ended.size(), 1U) << "what it knew of the text takes memory, too";
}

TEST(LeaderSpeculation, ACancelledRequestsGuessesAreWorthNothing) {
  LeaderRun run = drafting_run(5);
  const RequestId id = run.add(prompt_of(6), 40);
  for (int i = 0; i < 3; ++i) run.step();
  const std::size_t tokens = run.received[id].tokens[0].size();
  run.plan();
  run.leader.cancel(id);
  run.finish_step();
  while (run.leader.has_work()) run.step();
  EXPECT_TRUE(run.received[id].ended_with<RequestCancelled>());
  EXPECT_GE(run.received[id].tokens[0].size(), tokens);
  expect_all_free(run);
}

}  // namespace
}  // namespace tp
