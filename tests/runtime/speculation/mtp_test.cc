// Draft tokens from the MTP layer never change a text. A layer that knows the next token is always right.
#include "runtime/cache/hidden_states.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/speculation/next_token_models.h"
#include "tests/runtime/speculation/speculated_requests.h"
#include "tp/error.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::expect_no_change;
using test::expect_no_change_however_steps_are_cut;
using test::follower;
using test::greedy_request;
using test::model_whose_layer_copies_it;
using test::model_whose_layer_reads_states;
using test::ModelFolder;
using test::mtp;
using test::prompt_of;
using test::run_all;
using test::run_engine;
using test::small_glm;

constexpr std::array kBoth = {DraftRanks::first, DraftRanks::all};

TEST(Mtp, IsAlwaysRightIfStatesDetermineTheNextToken) {
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), small_glm(), model_whose_layer_reads_states());
  for (const DraftRanks ranks : kBoth) {
    for (const std::size_t chunk : {8, 64}) {
      SCOPED_TRACE(testing::Message()
                   << "chunks of " << chunk << (ranks == DraftRanks::all ? ", all ranks" : ""));
      EngineOptions options{.model = folder.path(),
                            .same_bits = chunk == 8,
                            .prefill_chunk = chunk,
                            .max_sequences = 4,
                            .block_size = 4};
      options.speculation = mtp(ranks);
      run_engine(test::world(), options, [&](Engine& engine) {
        for (const std::size_t size : {1, 2, 9, 30, 41, 30}) {
          Request request = greedy_request(prompt_of(size, size % 10), 30);
          request.n = size == 9 ? 3 : 1;
          engine.submit(request);
        }
        const test::Continuations all = run_all(engine);
        for (const auto& [key, one] : all) {
          ASSERT_EQ(one.tokens.size(), 30U);
          for (std::size_t i = 1; i < one.tokens.size(); ++i)
            EXPECT_EQ(static_cast<std::size_t>(one.tokens[i]),
                      follower(static_cast<std::size_t>(one.tokens[i - 1])));
        }
        // The next request finds its prompt in the cache.
        engine.submit(greedy_request(prompt_of(30, 0), 30));
        run_all(engine);
        const SpeculationCounts counts = engine.status().speculation;
        EXPECT_EQ(counts.accepted_tokens(), counts.drafted_tokens());
        // Each of the 9 texts has 30 tokens: the first one comes alone, and then five come per step, if the
        // step has room.
        EXPECT_GE(counts.accepted_tokens(), chunk == 8 ? 100U : 9U * 23);
      });
    }
  }
}

TEST(Mtp, IsAlwaysRightIfItCopiesTheModel) {
  const test::TemporaryDirectory folder;
  test::write_checkpoint(folder.path(), small_glm(), model_whose_layer_copies_it());
  for (const DraftRanks ranks : kBoth) {
    SCOPED_TRACE(ranks == DraftRanks::all ? "all ranks" : "first rank");
    EngineOptions options{.model = folder.path()};
    options.speculation = mtp(ranks);
    run_engine(test::world(), options, [&](Engine& engine) {
      for (const float temperature : {0.0F, 0.8F}) {
        for (std::uint64_t seed = 1; seed < 5; ++seed) {
          Request request = greedy_request(prompt_of(5 + seed, seed), 40);
          request.sampling.temperature = temperature;
          request.sampling.seed = seed;
          request.sampling.top_p = seed == 4 ? 0.8F : 1.0F;
          request.n = seed == 2 ? 3 : 1;
          engine.submit(request);
        }
      }
      const test::Continuations all = run_all(engine);
      EXPECT_NE((all.at({2, 0}).tokens), (all.at({3, 0}).tokens)) << "nothing is drawn";
      const SpeculationCounts counts = engine.status().speculation;
      EXPECT_EQ(counts.accepted_tokens(), counts.drafted_tokens());
      EXPECT_GE(counts.accepted_tokens(), 12U * 31);
    });
  }
}

// A fixture's model with an untrained layer.
class WithRandomLayer {
 public:
  explicit WithRandomLayer(const reference::Fixture& fixture) : folder_(fixture) {
    test::write_checkpoint_with_layer(folder_.path(), fixture, true);
  }

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  ModelFolder folder_;
};

TEST(Mtp, ChangesNoTextForAnyStepSize) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  const WithRandomLayer model(fixture);
  expect_no_change_however_steps_are_cut(
      {.model = model.path(), .weights = WeightType::f32, .same_bits = true, .speculation = mtp()},
      test::speculated_requests(fixture));
}

std::vector<Request> repetitive_requests(const reference::Fixture& fixture) {
  return {test::drawn(test::repetitive_prompt(fixture, 10, 5), 1),
          test::drawn(test::repetitive_prompt(fixture, 26, 7), 2)};
}

TEST(Mtp, ChangesNoTextOfAnyFamily) {
  for (const reference::Fixture& fixture : test::fixtures_of_families_with_layer()) {
    const WithRandomLayer model(fixture);
    const std::vector<Request> requests = repetitive_requests(fixture);
    EngineOptions options{
        .model = model.path(), .weights = WeightType::f32, .same_bits = true, .prefill_chunk = 16};
    const test::Continuations expected = test::plain_answers(options, requests);
    for (const DraftRanks ranks : kBoth) {
      SCOPED_TRACE(fixture.name + (ranks == DraftRanks::all ? ", all ranks" : ", first rank"));
      options.speculation = mtp(ranks);
      run_engine(test::world(), options, [&](Engine& engine) {
        test::expect_same_answers_to(test::answers_to(engine, requests), expected);
        EXPECT_GT(engine.status().speculation.drafted_tokens(), 20U);
      });
    }
  }
}

TEST(Mtp, ChangesNoTextWhileMeasuring) {
  for (const char* const name : {"qwen3next", "deepseek3-yarn"}) {
    const reference::Fixture fixture = reference::fixture(name);
    const WithRandomLayer model(fixture);
    const std::vector<Request> requests = repetitive_requests(fixture);
    EngineOptions options{
        .model = model.path(), .weights = WeightType::f32, .same_bits = true, .prefill_chunk = 16};
    const test::Continuations expected = test::plain_answers(options, requests);
    for (const DraftRanks ranks : kBoth) {
      for (const DraftKind kind : {DraftKind::mtp, DraftKind::automatic}) {
        SCOPED_TRACE(testing::Message()
                     << name << (ranks == DraftRanks::all ? ", all ranks" : ", first rank"));
        options.speculation = mtp(ranks);
        options.speculation.drafts = kind;
        options.speculation.always = false;
        expect_no_change(options, requests, expected);
      }
    }
  }
}

// Only some ranks keep hidden states, but all ranks must agree on whether to divide a step.
TEST(Mtp, WorksWithHalfBatchesAndHiddenStatesOfRequests) {
  const reference::Fixture fixture = reference::fixture("deepseek3-yarn");
  const WithRandomLayer model(fixture);
  Request embedded;
  embedded.prompt = test::repetitive_prompt(fixture, 12, 3);
  embedded.max_tokens = 0;
  embedded.prompt_hidden = true;
  const auto states_of = [&](const EngineOptions& options) {
    std::vector<float> states;
    run_engine(test::world(), options, [&](Engine& engine) {
      for (int round = 0; round < 2; ++round) {
        engine.submit(greedy_request(test::repetitive_prompt(fixture, 20, 5 + round), 12));
        engine.submit(embedded, test::hidden_into(states));
        run_all(engine);
      }
    });
    return states;
  };
  EngineOptions options{.model = model.path(), .weights = WeightType::f32, .same_bits = true};
  const std::vector<float> expected = states_of(options);
  EXPECT_EQ(expected.empty(), !test::world().is_root());
  options.two_batch_overlap = TwoBatchOverlap::on;
  for (const DraftRanks ranks : kBoth) {
    options.speculation = mtp(ranks);
    EXPECT_EQ(states_of(options), expected);
  }
}

TEST(Mtp, ReportsItsMemoryAndIsAutosChoiceWithoutADraftModel) {
  const WithRandomLayer model(reference::fixture("deepseek3-yarn"));
  for (const DraftKind kind : {DraftKind::mtp, DraftKind::automatic}) {
    EngineOptions options{.model = model.path()};
    options.speculation = mtp();
    options.speculation.drafts = kind;
    run_engine(test::world(), options, [&](Engine& engine) {
      const auto& draft = engine.info().draft;
      ASSERT_TRUE(draft);
      EXPECT_TRUE(draft->is_layer);
      EXPECT_EQ(draft->ranks, test::world().size());
      EXPECT_LT(draft->parameters, engine.info().parameters);
      EXPECT_LT(draft->cache_bytes, engine.info().cache_bytes);
      EXPECT_TRUE(engine.info().unused_tensors.empty());
    });
  }
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    ASSERT_EQ(engine.info().unused_tensors.size(), 1U);
    EXPECT_CONTAINS(engine.info().unused_tensors.front(), "tensors of multi-token prediction layers");
  });
  EngineOptions options{.model = reference::fixture("deepseek3-yarn").folder};
  options.speculation = mtp();
  options.speculation.drafts = DraftKind::automatic;
  run_engine(test::world(), options, [&](Engine& engine) { EXPECT_FALSE(engine.info().draft); });
}

void expect_refusal(const EngineOptions& options, const std::vector<std::string>& parts) {
  const std::string error = test::error_of<AgreedError>([&] { Engine engine(test::world(), options); });
  for (const std::string& part : parts) EXPECT_CONTAINS(error, part);
}

TEST(Mtp, RefusesCheckpointsWithoutTheLayer) {
  EngineOptions options{.model = reference::fixture("deepseek3-yarn").folder, .speculation = mtp()};
  expect_refusal(options, {"expected the model's layer for it, with model.layers.", "eh_proj.weight",
                           "found no such tensor in", "or use a different kind of drafts"});
  options.model = reference::fixture("qwen3next").folder;
  expect_refusal(options, {"with mtp.fc.weight"});
  options.model = reference::fixture("llama-gqa").folder;
  expect_refusal(options,
                 {"expected a family whose checkpoints have a layer for it", "found LlamaForCausalLM"});
}

TEST(Mtp, RefusesAPipeline) {
  if (test::world().size() % 2 != 0)
    GTEST_SKIP() << "stages divide the ranks evenly: an even number of ranks";
  const WithRandomLayer model(reference::fixture("deepseek3-yarn"));
  EngineOptions options{.model = model.path(), .pipeline = 2, .speculation = mtp()};
  expect_refusal(options, {"expected ranks that all have the model's last hidden states", "found 2 stages",
                           "leave `pipeline` out"});
  options.speculation.drafts = DraftKind::automatic;
  run_engine(test::world(), options, [&](Engine& engine) { EXPECT_FALSE(engine.info().draft); });
}

TEST(HiddenStates, KeepTheLatestAndForgetTheOldest) {
  HiddenStates states(3, 2);
  const auto keep = [&](std::size_t position, float value) {
    states.keep(5, position, std::array{value, -value});
  };
  const auto at = [&](std::size_t position) {
    const float* const state = states.find(5, position);
    return state == nullptr ? 0.0F : state[0] == -state[1] ? state[0] : -1.0F;
  };
  keep(0, 1.0F);
  keep(1, 2.0F);
  keep(1, 3.0F);  // replaces the state of a rejected draft token
  EXPECT_EQ(at(0), 1.0F);
  EXPECT_EQ(at(1), 3.0F);
  EXPECT_EQ(states.find(4, 1), nullptr);
  keep(2, 4.0F);
  EXPECT_EQ(at(0), 0.0F);
  keep(3, 5.0F);  // replaces the wrong draft token's state
  EXPECT_EQ(at(1), 3.0F);
  keep(4, 6.0F);
  EXPECT_EQ(at(1), 0.0F);
  EXPECT_EQ(at(2), 4.0F);
  EXPECT_EQ(at(3), 5.0F);
  EXPECT_EQ(at(4), 6.0F);
}

}  // namespace
}  // namespace tp
