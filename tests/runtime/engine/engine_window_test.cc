// Generation with window layers. Blocks that have left a window are freed and reused by other sequences.
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using test::greedy_request;
using test::ModelFolder;
using test::run_alone;
using test::run_engine;
using test::Texts;
using test::texts_of;

// A fixture with additional fields in config.json, without a tokenizer.
class ChangedFixture {
 public:
  ChangedFixture(const std::string& name, const nlohmann::json& fields)
      : fixture_(reference::fixture(name)), folder_(fixture_) {
    nlohmann::json config = nlohmann::json::parse(std::ifstream(fixture_.folder / "config.json"));
    config.update(fields);
    folder_.write("config.json", config.dump());
  }

  EngineOptions options() const {
    return {.model = folder_.path(), .weights = WeightType::f32, .kv_type = KvType::f32};
  }
  std::vector<TokenId> prompt(std::size_t size, std::size_t first) const {
    return test::varied_prompt(fixture_.prompt, size, first);
  }

 private:
  reference::Fixture fixture_;
  ModelFolder folder_;
};

// Gemma 2 has windows in every second layer, and Mistral in all layers.
ChangedFixture gemma2() { return {"gemma2-bf16", nlohmann::json::object()}; }
ChangedFixture mistral() {
  return {"llama-gqa", {{"architectures", {"MistralForCausalLM"}}, {"sliding_window", 11}}};
}

// Prompts longer than the window, some with a common beginning.
std::vector<Request> long_requests(const ChangedFixture& model) {
  std::vector<Request> requests;
  for (const std::size_t length : {3U, 40U, 41U, 64U, 90U, 100U, 100U}) {
    requests.push_back(greedy_request(model.prompt(length, length % 3), 4 + static_cast<int>(length % 9)));
    if (length % 2 != 0) continue;
    requests.back().sampling.temperature = 0.9F;
    requests.back().sampling.seed = 1000 + requests.size();
    requests.back().n = 2;
  }
  return requests;
}

struct Setting {
  std::size_t chunk, sequences, block_size, cache_tokens;
};

const std::vector<Setting> kSettings = {{512, 16, 4, 0}, {1, 16, 8, 0},   {3, 2, 4, 120},
                                        {7, 16, 1, 110}, {16, 5, 4, 116}, {5, 1, 8, 112}};

void expect_same_texts(Communicator& comm, const ChangedFixture& model,
                       const std::vector<Setting>& settings) {
  const std::vector<Request> requests = long_requests(model);
  // In the reference, blocks never leave the window, and requests run by themselves.
  Texts expected;
  EngineOptions options = model.options();
  options.block_size = 256;
  run_engine(comm, options, [&](Engine& engine) { expected = texts_of(engine, requests, true); });
  for (const Setting& setting : settings) {
    options.prefill_chunk = setting.chunk;
    options.max_sequences = setting.sequences;
    options.block_size = setting.block_size;
    options.cache_tokens = setting.cache_tokens;
    run_engine(comm, options, [&](Engine& engine) {
      for (const bool one_by_one : {false, true}) {
        EXPECT_EQ(texts_of(engine, requests, one_by_one), expected)
            << "chunk " << setting.chunk << ", " << setting.sequences << " sequences, cache of "
            << setting.cache_tokens << " in blocks of " << setting.block_size;
        EXPECT_EQ(engine.status().used_blocks, 0U);
      }
      EXPECT_GT(engine.status().prefix_hits, 0U);
    });
  }
}

TEST(EngineWindow, GivesTheSameTokensIfEverySecondLayerFreesBlocks) {
  expect_same_texts(test::world(), gemma2(), kSettings);
}

TEST(EngineWindow, GivesTheSameTokensIfAllLayersFreeBlocks) {
  expect_same_texts(test::world(), mistral(), kSettings);
}

// Compares blocks of different layers in released memory with a cache that never releases a block.
TEST(EngineWindow, GivesTheSameTokensAfter20000TokensIfLayersDiffer) {
  if (test::world().size() > 2) GTEST_SKIP() << "long, and more ranks show nothing new";
  for (const char* const name : {"gemma4", "gemma4-e"}) {
    const ChangedFixture model(name, nlohmann::json::object());
    const Request request = greedy_request(model.prompt(20000, 0), 12);
    EngineOptions options = model.options();
    const auto source = SafetensorsCheckpoint::open(options.model);
    test::ModelUnderTest all_kept(test::world(), load_config(options.model), *source, {.length = 20480});
    const std::vector<TokenId> expected = all_kept.greedy(request.prompt, 12);
    options.max_length = 20480;
    options.max_sequences = 1;
    options.block_size = 16;
    run_engine(test::world(), options, [&](Engine& engine) {
      EXPECT_EQ(run_alone(engine, request).tokens, expected) << name;
      EXPECT_EQ(engine.status().used_blocks, 0U);
      // Layers with windows need few blocks: 20480 / 16 blocks of the others, and some more.
      EXPECT_LT(engine.status().free_blocks, 2U * 20480 / 16);
    });
  }
}

TEST(EngineWindow, GeneratesATextThatIsLongerThanTheCache) {
  const ChangedFixture model = mistral();
  const Request request = greedy_request(model.prompt(90, 0), 100);
  std::vector<TokenId> expected;
  EngineOptions options = model.options();
  options.block_size = 256;
  run_engine(test::world(), options, [&](Engine& engine) { expected = run_alone(engine, request).tokens; });
  options.block_size = 4;
  options.prefill_chunk = 8;
  options.max_sequences = 1;
  run_engine(test::world(), options, [&](Engine& engine) {
    const LeaderStatus before = engine.status();
    EXPECT_EQ(before.free_blocks, 6U);  // a chunk's first token sees 10 tokens, and the chunk has 8
    EXPECT_EQ(run_alone(engine, request).tokens, expected);
    EXPECT_EQ(engine.status().preemptions, 0U);
  });
}

}  // namespace
}  // namespace tp
