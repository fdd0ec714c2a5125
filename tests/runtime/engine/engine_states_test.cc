// Models with recurrent layers generate the same texts as requests by themselves: in batches, in chunks, from
// prefixes, in samples, and together with requests that end early.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/error.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::greedy_request;
using test::ModelFolder;
using test::run_alone;
using test::run_engine;
using test::Texts;
using test::texts_of;

// A recurrent model without a tokenizer.
class RecurrentModel {
 public:
  explicit RecurrentModel(const std::string& name) : fixture_(reference::fixture(name)), folder_(fixture_) {}

  EngineOptions options() const {
    return {.model = folder_.path(), .weights = WeightType::f32, .kv_type = KvType::f32, .same_bits = true};
  }
  std::vector<TokenId> prompt(std::size_t size, std::size_t first) const {
    return test::varied_prompt(fixture_.prompt, size, first);
  }
  // Returns prompts of several lengths, some with a common beginning.
  std::vector<Request> requests() const {
    std::vector<Request> requests;
    for (const std::size_t length : {3U, 40U, 41U, 90U, 150U, 200U, 200U, 150U}) {
      requests.push_back(greedy_request(prompt(length, length % 3), 4 + static_cast<int>(length % 9)));
      if (length % 20 != 0) continue;
      requests.back().sampling.temperature = 0.9F;
      requests.back().sampling.seed = 1000 + requests.size();
      requests.back().n = 3;
    }
    return requests;
  }

 private:
  reference::Fixture fixture_;
  ModelFolder folder_;
};

bool has_states(const reference::Fixture& fixture) {
  const ModelSpec spec = make_spec(load_config(fixture.folder));
  return std::ranges::any_of(spec.blocks, keeps_state);
}

std::vector<std::string> recurrent_models() {
  std::vector<std::string> names;
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    if (has_states(fixture)) names.push_back(fixture.name);
  }
  return names;
}

class EngineStates : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, EngineStates, testing::ValuesIn(recurrent_models()));

TEST_P(EngineStates, GiveTheSameTokensInAnyBatch) {
  Communicator& comm = test::world();
  const RecurrentModel model(GetParam());
  const std::vector<Request> requests = model.requests();
  // The reference computes whole prompts in one step, by themselves, without cached tokens.
  Texts expected;
  EngineOptions options = model.options();
  std::vector<Request> apart = requests;
  for (Request& request : apart) request.cache_prompt = false;
  run_engine(comm, options, [&](Engine& engine) { expected = texts_of(engine, apart, true); });
  struct Setting {
    std::size_t chunk, sequences, block_size, cache_tokens;
  };
  for (const Setting& setting : {Setting{512, 16, 4, 0}, Setting{1, 16, 8, 0}, Setting{33, 2, 4, 250},
                                 Setting{64, 16, 1, 230}, Setting{16, 5, 4, 400}}) {
    options.prefill_chunk = setting.chunk;
    options.max_sequences = setting.sequences;
    options.block_size = setting.block_size;
    options.cache_tokens = setting.cache_tokens;
    run_engine(comm, options, [&](Engine& engine) {
      for (const bool one_by_one : {false, true}) {
        EXPECT_EQ(texts_of(engine, requests, one_by_one), expected)
            << "chunk " << setting.chunk << ", " << setting.sequences << " sequences, cache of "
            << setting.cache_tokens << " in blocks of " << setting.block_size;
      }
      const LeaderStatus status = engine.status();
      EXPECT_EQ(status.used_blocks, 0U);
      EXPECT_GT(status.prefix_hits, 0U);
    });
  }
}

// The next turns of a chat begin with all earlier turns.
TEST_P(EngineStates, GoOnFromTheEndOfAnAnswer) {
  const RecurrentModel model(GetParam());
  EngineOptions options = model.options();
  options.block_size = 4;
  options.max_sequences = 2;
  run_engine(test::world(), options, [&](Engine& engine) {
    std::vector<TokenId> conversation = model.prompt(41, 0);
    for (const int length : {30, 75, 3}) {
      Request request = greedy_request(conversation, length);
      request.cache_prompt = false;
      const std::vector<TokenId> expected = run_alone(engine, request).tokens;
      request.cache_prompt = true;
      const std::uint64_t computed = engine.status().computed_prompt_tokens;
      EXPECT_EQ(run_alone(engine, request).tokens, expected);
      if (conversation.size() > 41) {
        EXPECT_LE(engine.status().computed_prompt_tokens - computed, 4U + 3 + 1)
            << "a block, and what is new";
      }
      conversation.insert(conversation.end(), expected.begin(), expected.end());
      for (const TokenId token : model.prompt(3, 7)) conversation.push_back(token);
    }
    EXPECT_EQ(engine.status().snapshot_hits, 2U);
  });
}

TEST_P(EngineStates, DoNotLeakFromACancelledRequest) {
  const RecurrentModel model(GetParam());
  const Request request = greedy_request(model.prompt(100, 0), 20);
  EngineOptions options = model.options();
  options.block_size = 4;
  options.prefill_chunk = 16;
  options.max_sequences = 1;
  run_engine(test::world(), options, [&](Engine& engine) {
    const std::vector<TokenId> expected = run_alone(engine, request).tokens;
    const RequestId cancelled = engine.submit(greedy_request(model.prompt(120, 0), 50));
    for (int i = 0; i < 5; ++i) engine.step();
    engine.cancel(cancelled);
    EXPECT_EQ(run_alone(engine, request).tokens, expected);
  });
}

TEST_P(EngineStates, AreAPartOfTheCache) {
  const RecurrentModel model(GetParam());
  EngineOptions options = model.options();
  options.max_sequences = 3;
  run_engine(test::world(), options, [&](Engine& engine) {
    const EngineInfo& info = engine.info();
    EXPECT_EQ(info.states, 12U);
    EXPECT_GT(info.state_bytes, 0U);
    const auto blocks = make_spec(load_config(options.model)).blocks;
    EXPECT_EQ(info.cache_bytes > info.state_bytes, std::ranges::any_of(blocks, keeps_keys));
  });
}

TEST_P(EngineStates, RefuseABidirectionalPrompt) {
  const RecurrentModel model(GetParam());
  run_engine(test::world(), model.options(), [&](Engine& engine) {
    Request request;
    request.prompt = model.prompt(8, 0);
    request.max_tokens = 0;
    request.prompt_logits = true;
    request.bidirectional = true;
    EXPECT_THROW(engine.submit(request), RequestError);
  });
}

}  // namespace
}  // namespace tp
