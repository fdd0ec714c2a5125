// Qwen3-Next, in which three of four layers are recurrent: cases that the fixture does not cover.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using reference::Fixture;
using test::ModelUnderTest;

// A decoder of the fixture with several sequences. Each has its own blocks and state.
class Sequences {
 public:
  static constexpr std::size_t kBlockSize = 4;
  static constexpr std::size_t kBlocks = 40;  // blocks of one sequence
  static constexpr std::size_t kSlots = 6;

  explicit Sequences(Communicator& comm)
      : comm_(comm),
        fixture_(reference::fixture("qwen3next")),
        config_(load_config(fixture_.folder)),
        source_(SafetensorsCheckpoint::open(fixture_.folder)),
        decoder_(make_spec(config_), *source_, {comm.rank(), comm.size()}, WeightType::f32),
        cache_(decoder_.kv_layouts(KvType::f32, kBlockSize), 3 * kBlocks,
               StateCache(decoder_.state_floats(), kSlots)),
        workspace_(decoder_.workspace_floats({.tokens = 160,
                                              .outputs = 160,
                                              .kv_type = KvType::f32,
                                              .block_size = kBlockSize,
                                              .max_blocks = kBlocks})) {
    for (std::size_t block = 0; block < 3 * kBlocks; ++block)
      tables_[block % 3].push_back(static_cast<std::int32_t>(block));
  }

  struct Chunk {
    std::size_t sequence = 0;
    Range tokens{};  // range within the prompt
    StateSpan state{};
  };

  std::size_t prompt_size() const { return fixture_.prompt.size(); }

  // Returns the logits of all chunks' tokens on this rank.
  std::vector<float> step(const std::vector<Chunk>& chunks) {
    Batch batch;
    for (const Chunk& chunk : chunks) {
      batch.spans[0].push_back(
          {batch.tokens.size(), chunk.tokens.size(), chunk.tokens.begin, tables_[chunk.sequence]});
      batch.states.push_back(chunk.state);
      for (std::size_t i = chunk.tokens.begin; i < chunk.tokens.end; ++i) {
        batch.output_rows.push_back(batch.tokens.size());
        batch.tokens.push_back(fixture_.prompt[i]);
        batch.positions.push_back(i);
      }
    }
    std::vector<float> logits;
    decoder_.forward(comm_, batch, cache_, workspace_, [&](std::size_t, TensorView<const float> rows) {
      for (std::size_t row = 0; row < rows.rows(); ++row)
        logits.insert(logits.end(), rows.row(row), rows.row(row) + rows.columns());
    });
    return logits;
  }

  // Returns the logits of the prompt's tokens from `first` on, computed in one step.
  std::vector<float> expected(std::size_t first = 0) {
    const std::vector<float> all = step({{2, {0, prompt_size()}, {.slot = 5, .saves = {}}}});
    return {all.begin() + static_cast<std::ptrdiff_t>(first * decoder_.tables().head->tokens().size()),
            all.end()};
  }

  const StateCache& states() const { return cache_.states(); }

 private:
  Communicator& comm_;
  Fixture fixture_;
  CheckpointConfig config_;
  std::unique_ptr<WeightSource> source_;
  Model decoder_;
  KvCache cache_;
  Workspace workspace_;
  std::vector<std::int32_t> tables_[3];
};

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(Qwen3Next, GivesTheSameLogitsInStepsOfAnyLength) {
  const Fixture fixture = reference::fixture("qwen3next");
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  for (const std::size_t chunk : {1U, 2U, 3U, 7U, 64U}) {
    ModelUnderTest decoder(test::world(), load_config(fixture.folder), *source,
                           {.chunk = chunk, .block_size = 4, .weights = WeightType::f32});
    EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-3) << chunk;
  }
}

TEST(Qwen3Next, SeparatesTheStatesOfSequences) {
  Sequences model(test::world());
  const std::size_t size = model.prompt_size();
  const std::vector<float> expected = model.expected();
  const std::size_t row = expected.size() / size;
  std::vector<float> first;
  std::vector<float> second;
  // The second sequence is ten tokens behind the first one.
  for (std::size_t begin = 0; begin < size + 10; begin += 5) {
    std::vector<Sequences::Chunk> chunks;
    if (begin < size) chunks.push_back({0, {begin, begin + 5}, {.slot = 3, .saves = {}}});
    if (begin >= 10) chunks.push_back({1, {begin - 10, begin - 5}, {.slot = 0, .saves = {}}});
    const std::vector<float> logits = model.step(chunks);
    const auto middle = logits.begin() + static_cast<std::ptrdiff_t>(begin < size ? 5 * row : 0);
    first.insert(first.end(), logits.begin(), middle);
    second.insert(second.end(), middle, logits.end());
  }
  expect_near(first, expected);
  expect_near(second, expected);
}

// Imitates rejected draft tokens, or another sequence's prefix.
TEST(Qwen3Next, GoesOnFromAStateThatWasKept) {
  Sequences model(test::world());
  const std::size_t size = model.prompt_size();
  for (const std::size_t kept : {1U, 2U, 20U, 36U}) {
    // Tokens after the kept state change it.
    model.step({{0, {0, 40}, {.slot = 1, .saves = {{kept, 4}}}}});
    model.step({{0, {40, 50}, {.slot = 1, .saves = {}}}});
    model.states().copy(4, 2);
    expect_near(model.step({{0, {kept, size}, {.slot = 2, .saves = {}}}}), model.expected(kept));
  }
}

TEST(Qwen3Next, KeepsTheKeyHeadsOfItsValueHeads) {
  const Fixture fixture = reference::fixture("qwen3next");
  const ModelSpec spec = make_spec(load_config(fixture.folder));
  const auto source = SafetensorsCheckpoint::open(fixture.folder);
  // 4 value heads of 12 x 12, with rows of whole vectors, and 3 inputs of the convolution for 2 key heads and
  // their value heads. For up to 15 tokens, key heads have keys, and value heads have additions and decays.
  const auto floats = [&](TpRank tp) { return Model::shape_of(spec, *source, tp, {}).state_floats(); };
  const auto state = [](std::size_t key_heads, std::size_t value_heads) {
    const std::size_t conv = 3 * (2 * key_heads * 12 + value_heads * 12);
    return (conv + 15) / 16 * 16 + value_heads * (12 * 16 + 16) + 15 * 16 * (key_heads + value_heads);
  };
  EXPECT_EQ(floats({0, 1}), (std::vector<std::size_t>{state(2, 4), state(2, 4), state(2, 4), 0}));
  EXPECT_EQ(floats({1, 2})[0], state(1, 2));
  EXPECT_EQ(floats({0, 3})[0], state(1, 2));
  EXPECT_EQ(floats({1, 3})[0], state(1, 1));
  EXPECT_EQ(floats({3, 4})[0], state(1, 1));
}

// Returns the fixture's config.json with additional fields.
json config_with(const json& fields) {
  json config;
  std::ifstream(reference::fixture("qwen3next").folder / "config.json") >> config;
  config.update(fields);
  return config;
}

std::vector<bool> recurrent_layers(const json& config) {
  std::vector<bool> layers;
  for (const BlockSpec& block : make_spec(parse_config(config.dump(), "config.json")).blocks)
    layers.push_back(is_recurrent(block.attention));
  return layers;
}

TEST(Qwen3Next, HasTheConfigsAttentionLayers) {
  EXPECT_EQ(recurrent_layers(config_with(json::object())), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(recurrent_layers(config_with({{"full_attention_interval", 2}})),
            (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(
      recurrent_layers(config_with(
          {{"layer_types", {"full_attention", "linear_attention", "linear_attention", "full_attention"}}})),
      (std::vector<bool>{false, true, true, false}));
}

TEST(Qwen3Next, RefusesHeadsThatDoNotMatch) {
  EXPECT_EQ(test::error_of<ConfigError>([] {
              make_spec(parse_config(config_with({{"linear_num_key_heads", 3}}).dump(), "config.json"));
            }),
            "linear_num_value_heads must be a multiple of linear_num_key_heads, found 4 and 3; check "
            "config.json");
  EXPECT_EQ(test::error_of<ConfigError>([] {
              make_spec(parse_config(config_with({{"linear_conv_kernel_dim", 1000}}).dump(), "x"));
            }),
            "linear_conv_kernel_dim must be in 1..256 tokens, found 1000; check config.json");
}

TEST(Qwen3Next, ListsUnusedTensorsOfACheckpointWithAnMtpLayer) {
  const Fixture fixture = reference::fixture("qwen3next");
  const auto plain = SafetensorsCheckpoint::open(fixture.folder);
  std::vector<test::TestTensor> tensors;
  for (const std::string& name : plain->names()) {
    const auto raw = plain->find_raw(name);
    const auto* const bytes = reinterpret_cast<const char*>(raw->data);
    tensors.push_back({name, std::string(raw->tensor.type.name), raw->tensor.shape,
                       std::string(bytes, raw->tensor.bytes.size())});
  }
  for (const char* name : {"mtp.fc.weight", "mtp.layers.0.input_layernorm.weight", "mtp.norm.weight"})
    tensors.push_back(test::counting_tensor(name, {2, 3}));
  const test::TemporaryDirectory directory;
  directory.write("config.json", config_with(json::object()).dump());
  directory.write("model.safetensors", test::safetensors_file(tensors));
  const auto source = SafetensorsCheckpoint::open(directory.path());
  ModelUnderTest decoder(test::world(), load_config(directory.path()), *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 1e-3);
  const std::vector<std::string> word = {"mtp.* (3 tensors of multi-token prediction layers)"};
  EXPECT_EQ(decoder.model().unused_tensors(), test::world().is_root() ? word : std::vector<std::string>());
}

}  // namespace
}  // namespace tp
