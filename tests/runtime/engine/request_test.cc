#include "tp/request.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tp/error.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_error_names(const SamplingParams& params, std::string_view name) {
  const std::string text = test::error_or_none<RequestError>([&] { params.validate(); });
  EXPECT_CONTAINS(text, name);
  EXPECT_CONTAINS(text, "expected");
}

TEST(SamplingParams, DefaultsAndLimitsAreValid) {
  SamplingParams{}.validate();
  SamplingParams{.temperature = 0.0F, .top_k = 1, .top_p = 1e-6F, .min_p = 1.0F}.validate();
  SamplingParams{
      .repetition_penalty = 0.1F, .presence_penalty = -2.0F, .frequency_penalty = -2.0F, .logprobs = 0}
      .validate();
}

TEST(SamplingParams, EveryValueOutOfRangeIsNamed) {
  for (const float bad : {-0.1F, kInfinity, kNan}) expect_error_names({.temperature = bad}, "temperature");
  expect_error_names({.top_k = -1}, "top_k");
  for (const float bad : {-0.1F, 0.0F, 1.1F, kInfinity, kNan}) expect_error_names({.top_p = bad}, "top_p");
  for (const float bad : {-0.1F, 1.1F, kInfinity, kNan}) expect_error_names({.min_p = bad}, "min_p");
  for (const float bad : {-1.0F, 0.0F, kInfinity, kNan}) {
    expect_error_names({.repetition_penalty = bad}, "repetition_penalty");
  }
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    expect_error_names({.presence_penalty = bad}, "presence_penalty");
    expect_error_names({.frequency_penalty = bad}, "frequency_penalty");
  }
  expect_error_names({.logprobs = -2}, "logprobs");
}

TEST(SamplingParams, ErrorNamesExpectedAndFoundValuesWithAdvice) {
  EXPECT_EQ(test::error_or_none<RequestError>([] { SamplingParams{.top_p = 1.5F}.validate(); }),
            "cannot sample: `top_p` is 1.5, expected a number in (0, 1]; use 1 to keep all tokens");
}

TEST(Request, IsValidWithAPromptOnly) {
  Request request;
  request.prompt = {1};
  request.validate();
}

TEST(Request, EveryValueOutOfRangeIsNamed) {
  const auto error_after = [](const std::function<void(Request&)>& spoil) {
    Request request;
    request.prompt = {1};
    spoil(request);
    return test::error_or_none<RequestError>([&] { request.validate(); });
  };
  const auto names = [](const std::string& text, std::string_view name) {
    return text.find(name) != text.npos;
  };
  EXPECT_TRUE(names(error_after([](Request& r) { r.prompt.clear(); }), "it has 0 tokens"));
  EXPECT_TRUE(names(error_after([](Request& r) { r.max_tokens = 0; }), "`max_tokens` is 0"));
  EXPECT_TRUE(names(error_after([](Request& r) { r.n = 0; }), "`n` is 0"));
  EXPECT_EQ(error_after([](Request& r) { r.n = kMaxSamples + 1; }),
            "cannot generate: `n` is 4097, expected 1 to 4096 continuations; ask for more in further "
            "requests, with "
            "other seeds");
  EXPECT_TRUE(names(error_after([](Request& r) { r.stop = {".", ""}; }), "empty text"));
  EXPECT_TRUE(names(error_after([](Request& r) { r.sampling.top_p = 2.0F; }), "`top_p` is 2"));
  EXPECT_TRUE(names(error_after([](Request& r) { r.bidirectional = true; }),
                    "cannot continue or score a prompt with bidirectional attention"));
}

// The engine reads these lists for each token.
TEST(Request, BoundsTheListsThatCostTimeForEachToken) {
  const auto error_after = [](const std::function<void(Request&)>& spoil) {
    Request request;
    request.prompt = {1};
    spoil(request);
    return test::error_or_none<RequestError>([&] { request.validate(); });
  };
  const std::vector<TokenId> ids(1025, 5);
  EXPECT_EQ(error_after([&](Request& r) { r.bad_words.assign(1025, "x"); }),
            "`bad_words`: expected at most 1024 texts, found 1025; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.bad_words = {std::string(65537, 'x')}; }),
            "`bad_words`: expected at most 65536 bytes in all texts, found 65537; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.bad_words_ids.assign(1025, {1}); }),
            "`bad_words_ids`: expected at most 1024 sequences, found 1025; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.bad_words_ids.assign(64, ids); }),
            "`bad_words_ids`: expected at most 65536 ids in all sequences, found 65600; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.stop.assign(257, "x"); }),
            "`stop`: expected at most 256 texts, found 257; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.stop.assign(65, std::string(1024, 'x')); }),
            "`stop`: expected at most 65536 bytes in all texts, found 66560; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.stop = {std::string(1025, 'x')}; }),
            "`stop`: expected at most 1024 bytes in a text, found 1025; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.stop_token_ids = ids; }),
            "`stop_token_ids`: expected at most 1024 ids, found 1025; give fewer");
  EXPECT_EQ(error_after([&](Request& r) { r.sampling.logit_bias.assign(16385, {.id = 1}); }),
            "`logit_bias`: expected at most 16384 tokens, found 16385; give fewer");
  EXPECT_EQ(error_after([&](Request& r) {
              r.bad_words.assign(1024, "word");
              r.bad_words_ids.assign(1024, {1, 2});
              r.stop.assign(256, "stop");
              r.stop_token_ids.assign(1024, 5);
              r.sampling.logit_bias.assign(16384, {.id = 1});
            }),
            "no error");
}

TEST(FinishReason, HasTheNamesOfTheJsonOutput) {
  EXPECT_EQ(name_of(FinishReason::none), "none");
  EXPECT_EQ(name_of(FinishReason::stop), "stop");
  EXPECT_EQ(name_of(FinishReason::length), "length");
  EXPECT_EQ(name_of(FinishReason::cancelled), "cancelled");
  EXPECT_EQ(name_of(FinishReason::error), "error");
}

}  // namespace
}  // namespace tp
