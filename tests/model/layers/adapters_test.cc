// Adapters next to a model: logits by PEFT's formulas, on any number of ranks.
#include "model/config/config.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/adapters/merged_checkpoint.h"
#include "model/weights/open_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/reference/seeded_weights.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"
#include "tp/mpi.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::AdapterFixture;
using test::ModelUnderTest;

constexpr double kTolerance = 1e-4;  // see decoder_fixtures_test

AdapterOptions peft(const AdapterFixture& fixture, const std::string& name = "tuned") {
  return {.name = name, .path = fixture.folder / "adapter"};
}

std::unique_ptr<WeightSource> open_with(const std::filesystem::path& base,
                                        const std::vector<AdapterOptions>& adapters) {
  const CheckpointConfig config = load_config(base);
  std::unique_ptr<WeightSource> source = open_checkpoint(base);
  source->use_adapters(std::make_shared<const Adapters>(adapters, make_spec(config), "llama"));
  return source;
}

class AdapterFixtures : public testing::TestWithParam<std::string> {
 protected:
  bool fits() const { return config_.num_attention_heads >= comm_.size(); }

  Communicator& comm_ = test::world();
  AdapterFixture fixture_ = reference::adapter_fixture(GetParam());
  CheckpointConfig config_ = load_config(fixture_.base);
};

TEST_P(AdapterFixtures, GiveTheLogitsOfPeft) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const auto source = open_with(fixture_.base, {peft(fixture_)});
  ModelUnderTest decoder(comm_, config_, *source, {.weights = WeightType::f32, .adapter = 1});
  std::vector<float> logits = decoder.append(fixture_.prompt);
  EXPECT_LE(decoder.difference(logits, fixture_.rows), kTolerance);
  const std::vector<float> more =
      decoder.append(std::span(fixture_.greedy).first(fixture_.greedy.size() - 1));
  logits.insert(logits.end(), more.begin(), more.end());
  EXPECT_LE(decoder.difference(logits, fixture_.greedy_rows), kTolerance);
}

TEST_P(AdapterFixtures, GiveTheLogitsInHalfBatches) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const auto source = open_with(fixture_.base, {peft(fixture_)});
  ModelUnderTest decoder(comm_, config_, *source,
                         {.chunk = 20, .weights = WeightType::f32, .in_halves = true, .adapter = 1});
  EXPECT_LE(decoder.difference(decoder.append(fixture_.prompt), fixture_.rows), kTolerance);
}

TEST_P(AdapterFixtures, LeaveOtherRowsUnchanged) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const auto source = open_with(fixture_.base, {peft(fixture_)});
  const auto base = open_checkpoint(fixture_.base);
  ModelUnderTest decoder(comm_, config_, *source, {.weights = WeightType::f32});
  ModelUnderTest plain(comm_, config_, *base, {.weights = WeightType::f32});
  EXPECT_EQ(decoder.append(fixture_.prompt), plain.append(fixture_.prompt));
}

// The addends of row-parallel layers join the sums of the model.
TEST_P(AdapterFixtures, AddNoCommunication) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const auto source = open_with(fixture_.base, {peft(fixture_)});
  std::vector<CommStats> stats;
  for (const std::uint32_t adapter : {0U, 1U}) {
    ModelUnderTest decoder(comm_, config_, *source, {.weights = WeightType::f32, .adapter = adapter});
    comm_.stats() = CommStats{};
    decoder.append(fixture_.prompt);
    stats.push_back(comm_.stats());
  }
  EXPECT_GT(stats[0].all_reduce.calls, 0U);
  for (auto kind : {&CommStats::all_reduce, &CommStats::gather, &CommStats::broadcast}) {
    EXPECT_EQ((stats[1].*kind).calls, (stats[0].*kind).calls);
    EXPECT_EQ((stats[1].*kind).bytes, (stats[0].*kind).bytes);
  }
}

// The adapter's own weights are never quantized, so its logits are as far from PEFT's as those of the base
// model from the original ones.
TEST_P(AdapterFixtures, AdaptWeightsOfOtherTypes) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const auto source = open_with(fixture_.base, {peft(fixture_)});
  const auto logits_with = [&](WeightType weights, std::uint32_t adapter) {
    return ModelUnderTest(comm_, config_, *source, {.weights = weights, .adapter = adapter})
        .append(fixture_.prompt);
  };
  // The mean, because a flipped choice of experts moves single rows far.
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
      sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    return sum / static_cast<double>(a.size());
  };
  const std::vector<float> base = logits_with(WeightType::f32, 0);
  const std::vector<float> adapted = logits_with(WeightType::f32, 1);
  for (const WeightType weights : {WeightType::bf16, WeightType::int8}) {
    SCOPED_TRACE(name_of(weights));
    const double loss = distance(logits_with(weights, 0), base);
    EXPECT_GT(loss, 0.0);
    EXPECT_LE(distance(logits_with(weights, 1), adapted), 3.0 * loss);
    EXPECT_GT(distance(logits_with(weights, 0), adapted), 6.0 * loss) << "as if there were no adapter";
  }
}

// Each rank also computes the whole model by itself.
TEST_P(AdapterFixtures, GiveTheSameBitsOnAnyNumberOfRanks) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const auto source = open_with(fixture_.base, {peft(fixture_)});
  ModelSpec spec = make_spec(config_);
  spec.same_bits = true;
  for (const std::size_t chunk : {7U, 512U}) {
    ModelUnderTest decoder(comm_, spec, *source, {.chunk = chunk, .weights = WeightType::f32, .adapter = 1});
    const std::vector<float> own = decoder.append(fixture_.prompt);
    Communicator alone(MPI_COMM_SELF);
    ModelUnderTest whole(alone, spec, *source, {.weights = WeightType::f32, .adapter = 1});
    const std::vector<float> all = whole.append(fixture_.prompt);
    const Range vocab = decoder.local_vocab();
    for (std::size_t row = 0; row < fixture_.prompt.size(); ++row) {
      const float* const one = own.data() + row * vocab.size();
      const float* const other = all.data() + row * config_.vocab_size + vocab.begin;
      ASSERT_EQ(std::memcmp(one, other, vocab.size() * sizeof(float)), 0) << "row " << row;
    }
  }
}

// Two adapters in one model, each with its own rows, need the memory that the model has counted.
TEST_P(AdapterFixtures, WorkTogetherWithOtherAdapters) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  AdapterOptions none = peft(fixture_, "none");
  none.scale = 0.0;
  const auto source = open_with(fixture_.base, {none, peft(fixture_)});
  ModelUnderTest decoder(comm_, config_, *source, {.weights = WeightType::f32, .adapter = 2});
  EXPECT_LE(decoder.difference(decoder.append(fixture_.prompt), fixture_.rows), kTolerance);
}

TEST_P(AdapterFixtures, GiveTheLogitsWhenMerged) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const ModelSpec spec = make_spec(config_);
  const std::vector<AdapterOptions> options = {peft(fixture_)};
  const MergedCheckpoint merged(open_checkpoint(fixture_.base), Adapters(options, spec, ""), spec);
  ModelUnderTest decoder(comm_, config_, merged, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture_.prompt), fixture_.rows), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, AdapterFixtures, testing::ValuesIn(reference::adapter_fixtures()),
                         reference::name_of_fixture);

TEST(GgufAdapter, GivesTheLogitsOfThePeftAdapter) {
  Communicator& comm = test::world();
  const AdapterFixture fixture = reference::adapter_fixture("lora-llama");
  const auto source =
      open_with(fixture.base, {{.name = "tuned", .path = reference::gguf_adapter("lora-llama")}});
  const CheckpointConfig config = load_config(fixture.base);
  if (config.num_attention_heads < comm.size()) GTEST_SKIP() << comm.size() << " ranks";
  ModelUnderTest decoder(comm, config, *source, {.weights = WeightType::f32, .adapter = 1});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), kTolerance);
}

// A copy of a fixture's adapter with a changed config, or with other tensors.
class ChangedAdapter {
 public:
  ChangedAdapter() : fixture_(reference::adapter_fixture("lora-llama")) {
    for (const auto& entry : std::filesystem::directory_iterator(fixture_.folder / "adapter"))
      std::filesystem::copy(entry.path(), folder_.path() / entry.path().filename());
    std::ifstream stream(fixture_.folder / "adapter" / "adapter_config.json");
    config_ = nlohmann::json::parse(stream);
  }

  void set(const std::string& key, const nlohmann::json& value) {
    nlohmann::json changed = config_;
    changed[key] = value;
    folder_.write("adapter_config.json", changed.dump());
  }
  void write_tensors(const nlohmann::json& tensors) {
    const auto description = folder_.write(
        "weights.json",
        nlohmann::json({{"format", "seeded-weights-1"}, {"salt", ""}, {"tensors", tensors}}).dump());
    reference::write_seeded_weights(description, folder_.path() / "adapter_model.safetensors");
  }
  // The error of a model with this adapter, or "no error".
  std::string error() const {
    return test::error_or_none<Error>([&] {
      const auto source = open_with(fixture_.base, {{.name = "tuned", .path = folder_.path()}});
      Model::shape_of(make_spec(load_config(fixture_.base)), *source, {0, 1}, WeightType::f32);
    });
  }

 private:
  AdapterFixture fixture_;
  test::TemporaryDirectory folder_;
  nlohmann::json config_;
};

nlohmann::json tensor(const std::string& name, const std::vector<std::size_t>& shape) {
  return {{"name", name}, {"shape", shape}, {"dtype", "F32"}, {"base", 0.0}, {"amplitude", 0.125}};
}

TEST(PeftAdapter, RejectsUnsupportedFieldsByName) {
  ChangedAdapter adapter;
  EXPECT_EQ(adapter.error(), "no error");
  const std::pair<std::string, nlohmann::json> refused[] = {
      {"use_dora", true},
      {"lora_bias", true},
      {"use_qalora", true},
      {"bias", "all"},
      {"bias", "lora_only"},
      {"layer_replication", {{0, 1}, {0, 1}}},
      {"target_parameters", {"mlp.experts.gate_up_proj"}},
      {"alora_invocation_tokens", {1, 2}},
      {"trainable_token_indices", {7}},
      {"arrow_config", {{"top_k", 2}}},
      {"init_lora_weights", "pissa_niter_4"},
      {"init_lora_weights", "olora"},
      {"peft_type", "LOHA"}};
  for (const auto& [key, value] : refused) {
    adapter.set(key, value);
    EXPECT_CONTAINS(adapter.error(), "`" + key + "`") << value;
  }
  adapter.set("init_lora_weights", "gaussian");
  EXPECT_EQ(adapter.error(), "no error");
  adapter.set("target_parameters", nlohmann::json::array());
  EXPECT_EQ(adapter.error(), "no error");
}

TEST(PeftAdapter, RefusesTensorsThatTheModelHasNoPlaceFor) {
  const std::string begin = "base_model.model.model.layers.0.";
  const auto error_with = [](const nlohmann::json& tensors) {
    ChangedAdapter adapter;
    adapter.write_tensors(tensors);
    return adapter.error();
  };
  const auto both = [&](const std::string& module, std::size_t in, std::size_t out, std::size_t rank = 2) {
    return nlohmann::json::array({tensor(begin + module + ".lora_A.weight", {rank, in}),
                                  tensor(begin + module + ".lora_B.weight", {out, rank})});
  };
  EXPECT_EQ(error_with(both("self_attn.q_proj", 96, 96)), "no error");
  EXPECT_CONTAINS(error_with(both("self_attn.qkv_proj", 96, 96)), "self_attn.qkv_proj.lora_A.weight");
  EXPECT_CONTAINS(error_with(both("self_attn.q_proj", 95, 96)), "[2, 95]");
  EXPECT_CONTAINS(error_with(both("self_attn.q_proj", 96, 97)), "[97, 2]");
  EXPECT_CONTAINS(
      error_with(nlohmann::json::array({tensor(begin + "self_attn.q_proj.lora_A.weight", {2, 96})})),
      "expected both");
  EXPECT_CONTAINS(
      error_with(nlohmann::json::array({tensor(begin + "self_attn.q_proj.lora_A.weight", {2, 96}),
                                        tensor(begin + "self_attn.q_proj.lora_B.weight", {96, 3})})),
      "same rank");
  EXPECT_CONTAINS(
      error_with(nlohmann::json::array({tensor(begin + "self_attn.q_proj.lora_magnitude_vector", {96})})),
      "DoRA");
  EXPECT_CONTAINS(error_with(nlohmann::json::array({tensor(begin + "self_attn.q_proj.lora_B.bias", {96})})),
                  "biases");
  EXPECT_CONTAINS(error_with(nlohmann::json::array(
                      {tensor("base_model.model.model.layers.7.input_layernorm.weight", {96})})),
                  "layers.7.input_layernorm.weight");
  EXPECT_CONTAINS(error_with(nlohmann::json::array({tensor("base_model.model.lm_head.weight", {4096, 96})})),
                  "grown");
  EXPECT_CONTAINS(error_with(nlohmann::json::array({tensor("something.weight", {2, 2})})),
                  "something.weight");
  EXPECT_CONTAINS(
      error_with(nlohmann::json::array({tensor(begin + "self_attn.q_proj.lora_A.weight", {2, 3, 16})})),
      "expected a matrix");
}

}  // namespace
}  // namespace tp
