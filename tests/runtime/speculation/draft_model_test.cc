// A draft model never changes a text. It agrees with the model as often as common noise allows, so a model
// always agrees with itself.
#include "parallel/machine/file_text.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/speculation/speculated_requests.h"
#include "tp/error.h"

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::Continuations;
using test::drawn;
using test::expect_no_change;
using test::expect_no_change_however_steps_are_cut;
using test::greedy_request;
using test::ModelFolder;
using test::plain_answers;
using test::repetitive_prompt;
using test::run_all;
using test::run_engine;
using test::speculated_requests;

SpeculationOptions drafts_of(const std::filesystem::path& model, DraftRanks ranks) {
  return {.drafts = DraftKind::model, .tokens = 4, .always = true, .model = model, .ranks = ranks};
}

constexpr std::array kBoth = {DraftRanks::first, DraftRanks::all};

Request drawn_request(const reference::Fixture& fixture, float temperature, std::uint64_t seed) {
  Request request = greedy_request(fixture.prompt, 40);
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  return request;
}

TEST(DraftModel, AlwaysAgreesWithItself) {
  for (const char* const model : {"llama-gqa", "gemma2-bf16"}) {
    const reference::Fixture fixture = reference::fixture(model);
    for (const DraftRanks ranks : kBoth) {
      SCOPED_TRACE(testing::Message()
                   << model << (ranks == DraftRanks::all ? ", all ranks" : ", first rank"));
      EngineOptions options{.model = fixture.folder, .same_bits = true};
      options.speculation = drafts_of(fixture.folder, ranks);
      run_engine(test::world(), options, [&](Engine& engine) {
        for (const float temperature : {0.0F, 0.8F, 1.5F})
          for (std::uint64_t seed = 1; seed < 4; ++seed)
            engine.submit(drawn_request(fixture, temperature, seed));
        Request filtered = drawn_request(fixture, 1.0F, 9);
        filtered.n = 3;
        filtered.sampling.top_p = 0.8F;
        filtered.sampling.repetition_penalty = 1.3F;
        filtered.sampling.frequency_penalty = 0.4F;
        filtered.sampling.logit_bias = {{5, 3.0F}, {7, -100.0F}};
        engine.submit(filtered);
        run_all(engine);
        const SpeculationCounts counts = engine.status().speculation;
        EXPECT_EQ(counts.accepted_tokens(), counts.drafted_tokens());
        // Each of the 12 texts has 40 tokens: the first one comes alone, and then five come per step.
        EXPECT_GE(counts.accepted_tokens(), 12U * 31);
      });
    }
  }
}

// The draft model is the same model with rounded weights, so it agrees often but not always.
TEST(DraftModel, ChangesNoTextOfAnyModel) {
  struct Setting {
    const char* model;
    const char* draft;
    WeightType type;
  };
  for (const Setting& setting :
       {Setting{"llama-gqa", "llama-gqa", WeightType::int4},
        Setting{"llama-gqa-bf16", "llama-gqa", WeightType::int8}, Setting{"olmo3", "olmo3", WeightType::int4},
        Setting{"qwen2moe", "gemma2-bf16", WeightType::f32}}) {
    const reference::Fixture fixture = reference::fixture(setting.model);
    const ModelFolder folder(fixture);
    const ModelFolder draft(reference::fixture(setting.draft));
    const std::vector<Request> requests = speculated_requests(fixture);
    EngineOptions options{.model = folder.path(), .weights = setting.type, .same_bits = true};
    const Continuations expected = plain_answers(options, requests);
    for (const DraftRanks ranks : kBoth) {
      SCOPED_TRACE(testing::Message() << setting.model << (ranks == DraftRanks::all ? ", all ranks" : ""));
      options.speculation = drafts_of(draft.path(), ranks);
      expect_no_change(options, requests, expected);
    }
  }
}

TEST(DraftModel, ChangesNoTextOfRecurrentLayers) {
  const reference::Fixture fixture = reference::fixture("qwen3next");
  const std::vector<Request> requests = {drawn(repetitive_prompt(fixture, 10, 5), 1),
                                         drawn(repetitive_prompt(fixture, 30, 7), 2)};
  EngineOptions options{.model = fixture.folder, .weights = WeightType::f32, .same_bits = true};
  const Continuations expected = plain_answers(options, requests);
  options.speculation = drafts_of(reference::fixture("cohere2").folder, DraftRanks::all);
  options.speculation.always = false;
  expect_no_change(options, requests, expected);
}

TEST(DraftModel, ChangesNoTextForAnyStepSize) {
  const reference::Fixture fixture = reference::fixture("olmo3");
  const ModelFolder folder(fixture);
  expect_no_change_however_steps_are_cut({.model = folder.path(),
                                          .weights = WeightType::int4,
                                          .same_bits = true,
                                          .speculation = drafts_of(folder.path(), DraftRanks::all)},
                                         speculated_requests(fixture));
}

TEST(DraftModel, ChangesNoTextWhileMeasuringOrMixingWithNgrams) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  const std::vector<Request> requests = speculated_requests(fixture);
  EngineOptions options{.model = folder.path(), .weights = WeightType::int8, .same_bits = true};
  const Continuations expected = plain_answers(options, requests);
  for (const DraftRanks ranks : kBoth) {
    options.speculation = drafts_of(folder.path(), ranks);
    options.speculation.always = false;
    expect_no_change(options, requests, expected);
    options.speculation = drafts_of(folder.path(), ranks);
    options.speculation.drafts = DraftKind::automatic;
    expect_no_change(options, requests, expected);
  }
}

TEST(DraftModel, ChangesNoTextOfAPipeline) {
  if (test::world().size() % 2 != 0)
    GTEST_SKIP() << "stages divide the ranks evenly: an even number of ranks";
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  const std::vector<Request> requests = speculated_requests(fixture);
  EngineOptions options{.model = folder.path(), .weights = WeightType::int8, .same_bits = true};
  const Continuations expected = plain_answers(options, requests);
  options.pipeline = 2;
  options.speculation = drafts_of(folder.path(), DraftRanks::all);
  run_engine(test::world(), options, [&](Engine& engine) {
    ASSERT_TRUE(engine.info().draft);
    EXPECT_EQ(engine.info().draft->ranks, 1U) << "stages cannot run a model of all ranks together";
  });
  expect_no_change(options, requests, expected);
}

TEST(DraftModel, ReportsItsMemory) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  for (const DraftRanks ranks : kBoth) {
    EngineOptions options{.model = fixture.folder};
    options.speculation = drafts_of(fixture.folder, ranks);
    run_engine(test::world(), options, [&](Engine& engine) {
      const EngineInfo& info = engine.info();
      ASSERT_TRUE(info.draft);
      EXPECT_EQ(info.draft->ranks, ranks == DraftRanks::all ? test::world().size() : 1U);
      EXPECT_EQ(info.draft->parameters, info.parameters);
      EXPECT_GE(info.draft->weight_bytes, info.weight_bytes);
      EXPECT_GE(info.draft->cache_bytes, info.cache_bytes);
    });
  }
}

void expect_refusal(const EngineOptions& options, const std::vector<std::string>& parts) {
  try {
    Engine engine(test::world(), options);
    ADD_FAILURE() << "accepted";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    for (const std::string& part : parts) EXPECT_CONTAINS(std::string(error.what()), part);
  }
}

TEST(DraftModel, RefusesModelsThatCannotGuess) {
  EngineOptions options{.model = reference::fixture("llama-gqa").folder};
  const auto refuse = [&](const std::filesystem::path& draft, const std::vector<std::string>& parts) {
    options.speculation = drafts_of(draft, DraftRanks::automatic);
    expect_refusal(options, parts);
  };
  refuse({}, {"`speculation.model`", "name one"});
  refuse(reference::fixture("llama-12q3kv").folder,
         {"expected a vocabulary of 320 tokens, as the model's, found 300", "same tokenizer"});
  refuse(reference::seeded_folder("diffusion", "llada"),
         {"expected a model that generates one token after the other", "found LLaDA", "another draft model"});
  options.model = reference::fixture("cohere2").folder;
  refuse(reference::fixture("qwen3next").folder,
         {"layers that can take a token back", "Qwen3NextForCausalLM", "another draft model"});
  refuse(reference::fixture("falconh1").folder, {"layers that can take a token back", "FalconH1ForCausalLM"});
}

TEST(DraftModel, RefusesOtherTokensOfTheSameNumber) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  const ModelFolder other(fixture);
  if (test::world().is_root()) {
    std::string tokenizer = file_text(folder.path() / "tokenizer.json");
    const auto place = tokenizer.find("\"ac\":2,");
    ASSERT_NE(place, std::string::npos);
    tokenizer.replace(place, 4, "\"a!\"");
    other.write("tokenizer.json", tokenizer);
  }
  EngineOptions options{.model = folder.path()};
  options.speculation = drafts_of(other.path(), DraftRanks::first);
  expect_refusal(options, {"of which 2 is \"ac\", found \"a!\"", "same tokenizer"});
}

}  // namespace
}  // namespace tp
