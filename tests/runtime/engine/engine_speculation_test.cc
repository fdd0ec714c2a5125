// Draft tokens never change a text: for any request, the engine gives the same bits with and without them, on
// any number of ranks and with every kind of layer.
#include "tests/error_of.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/speculation/speculated_requests.h"
#include "tp/error.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Continuation;
using test::Continuations;
using test::drawn;
using test::expect_no_change;
using test::expect_no_change_however_steps_are_cut;
using test::expect_same_answer;
using test::greedy_request;
using test::ModelFolder;
using test::plain_answers;
using test::repetitive_prompt;
using test::run_engine;
using test::speculated_requests;

const SpeculationOptions kEager{.drafts = DraftKind::ngram, .tokens = 4, .always = true};

TEST(EngineSpeculation, ChangesNoTextOfAnyModelAndType) {
  struct Setting {
    const char* model;
    WeightType type;
  };
  for (const Setting& setting :
       {Setting{"llama-gqa", WeightType::f32},   Setting{"llama-gqa", WeightType::int8},
        Setting{"llama-gqa", WeightType::int4},  Setting{"llama-gqa-bf16", WeightType::bf16},
        Setting{"gemma2-bf16", WeightType::f16}, Setting{"deepseek3-yarn", WeightType::int8},
        Setting{"qwen3next", WeightType::f32},   Setting{"qwen35moe", WeightType::f32},
        Setting{"qwen4exp", WeightType::f32},    Setting{"qwen2moe", WeightType::bf16},
        Setting{"deepseekv4", WeightType::bf16}, Setting{"mistral4", WeightType::f32},
        Setting{"deepseekv41", WeightType::f32}, Setting{"deepseekv41-rounded", WeightType::bf16},
        Setting{"lfm2", WeightType::f32},        Setting{"granite4h", WeightType::bf16},
        Setting{"falconh1", WeightType::f32},    Setting{"mamba2", WeightType::int8},
        Setting{"mamba1", WeightType::f32},      Setting{"rwkv7-8heads", WeightType::f32},
        Setting{"jamba", WeightType::bf16},      Setting{"kimilinear", WeightType::bf16},
        Setting{"glm52dsa", WeightType::f32}}) {
    SCOPED_TRACE(testing::Message() << setting.model << ", " << name_of(setting.type));
    const reference::Fixture fixture = reference::fixture(setting.model);
    const ModelFolder folder(fixture);
    const std::vector<Request> requests = speculated_requests(fixture);
    EngineOptions options{.model = folder.path(), .weights = setting.type, .same_bits = true};
    const Continuations expected = plain_answers(options, requests);
    options.speculation = kEager;
    expect_no_change(options, requests, expected);
  }
}

TEST(EngineSpeculation, ChangesNoTextForAnyStepSize) {
  for (const char* const model :
       {"gemma2-bf16", "qwen3next", "lfm2", "nemotronh", "kimilinear", "deepseekv32", "deepseekv4",
        "deepseekv41", "deepseekv41-rounded", "glm5next", "jamba", "rwkv7-8heads", "qwen4exp"}) {
    SCOPED_TRACE(model);
    const reference::Fixture fixture = reference::fixture(model);
    const ModelFolder folder(fixture);
    expect_no_change_however_steps_are_cut(
        {.model = folder.path(), .weights = WeightType::f32, .same_bits = true, .speculation = kEager},
        speculated_requests(fixture));
  }
}

// With f32, the arithmetic does not depend on chunk sizes, so drafts change no text.
TEST(EngineSpeculation, ChangesNoTextEvenWithoutSameBits) {
  const reference::Fixture fixture = reference::fixture("llama-12q3kv");
  const ModelFolder folder(fixture);
  const std::vector<Request> requests = speculated_requests(fixture);
  EngineOptions options{.model = folder.path(), .weights = WeightType::f32, .kv_type = KvType::f32};
  Continuations expected = plain_answers(options, requests);
  options.speculation = kEager;
  run_engine(test::world(), options, [&](Engine& engine) {
    for (const auto& [key, one] : test::answers_to(engine, requests))
      EXPECT_EQ(one.tokens, expected[key].tokens);
  });
}

// Measured steps also need states, instead of a cache or in addition to it.
TEST(EngineSpeculation, ChangesNoTextWhileMeasuring) {
  for (const char* const model : {"llama-gqa", "nemotronh", "falconh1"}) {
    SCOPED_TRACE(model);
    const reference::Fixture fixture = reference::fixture(model);
    const ModelFolder folder(fixture);
    const std::vector<Request> requests = speculated_requests(fixture);
    EngineOptions options{.model = folder.path(), .weights = WeightType::f32, .same_bits = true};
    const Continuations expected = plain_answers(options, requests);
    options.speculation = {.drafts = DraftKind::ngram};
    expect_no_change(options, requests, expected);
    // The cache and the steps have no room for measurements.
    options.prefill_chunk = 3;
    options.cache_tokens = 120;
    expect_no_change(options, requests, expected);
  }
}

TEST(EngineSpeculation, ChangesNoTextOfAPipeline) {
  Communicator& comm = test::world();
  if (comm.size() % 2 != 0) GTEST_SKIP() << "stages divide the ranks evenly: an even number of ranks";
  for (const char* const model : {"llama-gqa", "qwen3next", "nemotronh-moe"}) {
    const reference::Fixture fixture = reference::fixture(model);
    const ModelFolder folder(fixture);
    const std::vector<Request> requests = speculated_requests(fixture);
    EngineOptions options{.model = folder.path(), .weights = WeightType::f32, .same_bits = true};
    const Continuations expected = plain_answers(options, requests);
    options.pipeline = 2;
    options.speculation = kEager;
    expect_no_change(options, requests, expected);
    options.speculation = {.drafts = DraftKind::ngram};
    expect_no_change(options, requests, expected);
  }
}

// Drafts a known text, with every third token wrong.
class KnownText : public DraftSource {
 public:
  explicit KnownText(std::vector<TokenId> text) : text_(std::move(text)) {}

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    std::vector<Draft> drafts;
    for (const DraftQuery& query : queries) {
      Draft& draft = drafts.emplace_back();
      for (std::size_t i = query.tokens.size(); i < text_.size() && draft.tokens.size() < query.max_tokens;
           ++i) {
        draft.tokens.push_back(i % 3 == 0 ? (text_[i] + 1) % 100 : text_[i]);
        draft.chances.push_back(0.9 / static_cast<double>(draft.tokens.size()));
      }
    }
    return drafts;
  }
  void end(std::uint64_t /*sequence*/) override {}

 private:
  std::vector<TokenId> text_;
};

TEST(EngineSpeculation, TakesDraftsOfAProgramsOwnSource) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  EngineOptions options{.model = fixture.folder, .weights = WeightType::f32, .same_bits = true};
  const Request request = greedy_request(repetitive_prompt(fixture, 10, 10), 30);
  std::vector<TokenId> text = request.prompt;
  run_engine(test::world(), options, [&](Engine& engine) {
    const std::vector<TokenId> answer = test::run_alone(engine, request).tokens;
    text.insert(text.end(), answer.begin(), answer.end());
  });
  options.speculation = {.drafts = DraftKind::custom, .tokens = 5, .always = true};
  const auto use_source = [&](Engine& engine) {
    const std::vector<TokenId> answer = test::run_alone(engine, request).tokens;
    EXPECT_TRUE(std::ranges::equal(answer, std::span(text).subspan(request.prompt.size())));
    EXPECT_GE(engine.status().speculation.accepted_tokens(), 10U);
  };
  run_engine(test::world(), options, use_source,
             {.draft_source = [&] { return std::make_unique<KnownText>(text); }});
}

TEST(EngineSpeculation, RejectsAMissingSource) {
  EngineOptions options{.model = reference::fixture("llama-gqa").folder};
  options.speculation = {.drafts = DraftKind::custom};
  EXPECT_THROW(Engine(test::world(), options), AgreedError);
}

TEST(EngineSpeculation, LeavesNothingWrongForThePrefixCache) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  EngineOptions options{
      .model = folder.path(), .weights = WeightType::f32, .same_bits = true, .block_size = 4};
  const Request first = drawn(repetitive_prompt(fixture, 10, 5), 3);
  const auto second = [&](const std::vector<TokenId>& answer) {
    Request request = greedy_request(first.prompt, 20);
    request.prompt.insert(request.prompt.end(), answer.begin(), answer.begin() + 25);
    request.sampling.logprobs = 0;
    return request;
  };
  Continuation expected;
  run_engine(test::world(), options, [&](Engine& engine) {
    const std::vector<TokenId> answer = test::run_alone(engine, first).tokens;
    Request alone = second(answer);
    alone.cache_prompt = false;
    expected = test::run_alone(engine, alone);
  });
  options.speculation = kEager;
  run_engine(test::world(), options, [&](Engine& engine) {
    const Continuation found = test::run_alone(engine, second(test::run_alone(engine, first).tokens));
    EXPECT_GE(found.cached_tokens, 32U);
    expect_same_answer(found, expected);
  });
}

EngineOptions with_history(EngineOptions options, std::size_t tokens) {
  options.speculation = kEager;
  options.speculation.tokens = 8;
  options.speculation.draft_history = tokens;
  return options;
}

TEST(EngineSpeculation, ChangesNoTextWithEarlierAnswers) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  std::vector<Request> requests = speculated_requests(fixture);
  const std::vector<Request> again = requests;
  requests.insert(requests.end(), again.begin(), again.end());
  EngineOptions options{
      .model = folder.path(), .weights = WeightType::f32, .same_bits = true, .max_sequences = 3};
  const Continuations expected = plain_answers(options, requests);
  for (const std::size_t tokens : {100, 100000}) {
    SCOPED_TRACE(tokens);
    expect_no_change(with_history(options, tokens), requests, expected);
  }
}

TEST(EngineSpeculation, DraftsAnAnswerAlmostCompletelyThatHasBeenGivenBefore) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  EngineOptions options{.model = fixture.folder, .weights = WeightType::f32, .same_bits = true};
  // The text has few repetitions.
  Request request = greedy_request(repetitive_prompt(fixture, 20, 20), 60);
  request.sampling.temperature = 1.2F;
  request.sampling.seed = 5;
  Request other = request;
  other.prompt = repetitive_prompt(fixture, 11, 7);
  other.sampling.seed = 6;
  Request salted = request;
  salted.cache_salt = "mine";
  const auto accepted_of = [](Engine& engine, const Request& one) {
    const SpeculationCounts before = engine.status().speculation;
    const std::vector<TokenId> answer = test::run_alone(engine, one).tokens;
    EXPECT_EQ(answer.size(), 60U);
    const SpeculationCounts after = engine.status().speculation;
    EXPECT_EQ(after.failure, "");
    return std::pair(answer, after.accepted_tokens() - before.accepted_tokens());
  };
  for (const std::size_t tokens : {0, 1000}) {
    run_engine(test::world(), with_history(options, tokens), [&](Engine& engine) {
      const auto [first_answer, first] = accepted_of(engine, request);
      accepted_of(engine, other);
      const auto [second_answer, second] = accepted_of(engine, request);
      EXPECT_EQ(second_answer, first_answer);
      EXPECT_EQ(accepted_of(engine, salted).second, first) << "salts must not be noticed by others";
      EXPECT_LT(first, 20U) << "the test proves nothing";
      if (tokens == 0) {
        EXPECT_EQ(second, first);
      } else {
        EXPECT_GE(second, 50U) << "of 60 tokens, with one of each step that was not guessed";
      }
    });
  }
}

TEST(EngineSpeculation, RejectsAHistoryWithoutNgramDrafts) {
  for (const DraftKind drafts : {DraftKind::none, DraftKind::model}) {
    EngineOptions options{.model = reference::fixture("llama-gqa").folder};
    options.speculation = {.drafts = drafts, .draft_history = 100};
    EXPECT_EQ(test::error_of<AgreedError>([&] { Engine engine(test::world(), options); }),
              "cannot draft from earlier answers: expected `speculation` with ngram or auto, found a "
              "`draft_history` of 100 tokens with another kind or none; choose ngram or auto, or leave "
              "`draft_history` out");
  }
}

TEST(EngineSpeculation, RefusesTooManyTokens) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  for (const std::size_t tokens : {std::size_t{0}, kMaxDraftTokens + 1}) {
    EngineOptions options{.model = fixture.folder};
    options.speculation = {.drafts = DraftKind::ngram, .tokens = tokens};
    EXPECT_EQ(test::error_of<AgreedError>([&] { Engine engine(test::world(), options); }),
              "`speculation` must try 1..15 tokens ahead, found " + std::to_string(tokens))
        << tokens;
  }
}

}  // namespace
}  // namespace tp
