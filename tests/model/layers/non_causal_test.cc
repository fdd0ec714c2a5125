// Decoders with "is_causal": false, whose tokens attend to all positions.
#include "model/config/config.h"
#include "model/files/json_node.h"
#include "model/quantize/quantize_model.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tests/error_of.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/llama.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using reference::Fixture;
using test::error_of;
using test::ModelUnderTest;
using test::TemporaryDirectory;

// The fixture's config.json with this value of is_causal.
nlohmann::json json_with(const Fixture& fixture, bool is_causal) {
  nlohmann::json json = read_json_file(fixture.folder / "config.json");
  json["is_causal"] = is_causal;
  return json;
}

CheckpointConfig config_with(const Fixture& fixture, bool is_causal) {
  return parse_config(json_with(fixture, is_causal).dump(), "config.json");
}

// Parts of the errors for families whose layers cannot attend to later tokens.
const std::map<std::string, std::string> kRefused = {
    {"BailingMoeV3ForCausalLM", "recurrent layers"},
    {"BambaForCausalLM", "recurrent layers"},
    {"DeepseekV32ForCausalLM", "indexers, which score earlier tokens"},
    {"DeepseekV4ForCausalLM", "compressed attention"},
    {"DeepseekV41ForCausalLM", "compressed attention"},
    {"FalconH1ForCausalLM", "recurrent layers"},
    {"Gemma3nForConditionalGeneration", "layers that use the keys and values of earlier layers"},
    {"Gemma4ForConditionalGeneration", "layers that use the keys and values of earlier layers"},
    {"Glm5NextForConditionalGeneration", "recurrent layers"},
    {"GlmMoeDsaForCausalLM", "indexers, which score earlier tokens"},
    {"GraniteMoeHybridForCausalLM", "recurrent layers"},
    {"HYV4ForCausalLM", "indexers, which score earlier tokens"},
    {"JambaForCausalLM", "recurrent layers"},
    {"KimiK3ForConditionalGeneration", "recurrent layers"},
    {"KimiLinearForCausalLM", "recurrent layers"},
    {"Lfm2ForCausalLM", "recurrent layers"},
    {"Lfm2MoeForCausalLM", "recurrent layers"},
    {"Llama4ForCausalLM", "attention within chunks"},
    {"Mamba2ForCausalLM", "recurrent layers"},
    {"MambaForCausalLM", "recurrent layers"},
    {"MiniMaxM3SparseForConditionalGeneration", "indexers, which score earlier tokens"},
    {"NemotronHForCausalLM", "recurrent layers"},
    {"OlmoHybridForCausalLM", "recurrent layers"},
    {"Qwen3NextForCausalLM", "recurrent layers"},
    {"Qwen3_5ForCausalLM", "recurrent layers"},
    {"Qwen3_5ForConditionalGeneration", "recurrent layers"},
    {"Qwen3_5MoeForConditionalGeneration", "recurrent layers"},
    {"Qwen4ExpForConditionalGeneration", "recurrent layers"},
    {"RWKV7ForCausalLM", "recurrent layers"},
    {"ReformerModelWithLMHead", "attention within chunks"},
};

TEST(NonCausal, DecodersEqualTheNaiveDecoderWithoutAMask) {
  Communicator& comm = test::world();
  CheckpointConfig config = config_with(reference::fixture("llama-gqa"), false);
  const SyntheticWeights source(DType::f32, 3);
  const std::vector<TokenId> tokens = {3, 14, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
  ModelUnderTest decoder(comm, config, source, {.length = 40, .block_size = 8});
  const std::vector<reference::LayerAttention> layers(config.num_hidden_layers,
                                                      {config.rope_theta, {.causal = false}});
  EXPECT_LE(
      decoder.difference(decoder.append(tokens), reference::Llama(config, source, layers).logits(tokens)),
      1e-4);
}

// A request for bidirectional attention takes a different path, whose kernels have their own references. Its
// windows have the causal ones' size. transformers' windows have one more token on each side.
TEST(NonCausal, EveryFamilyAttendsToAllPositionsOrNamesTheObstacle) {
  Communicator& comm = test::world();
  std::set<std::string> refused;
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    SCOPED_TRACE(fixture.name);
    const CheckpointConfig causal = config_with(fixture, true);
    if (causal.num_attention_heads < comm.size()) continue;
    const CheckpointConfig config = config_with(fixture, false);
    EXPECT_EQ(kind_of(causal), ModelKind::decoder);
    EXPECT_EQ(kind_of(config), ModelKind::non_causal);
    const std::string error = test::error_or_none<ConfigError>([&] { make_spec(config); });
    if (error != "no error") {
      const auto found = kRefused.find(config.architecture);
      ASSERT_NE(found, kRefused.end()) << config.architecture << ": " << error;
      EXPECT_EQ(error, fmt::format("is_causal (attention.causal in GGUF files) is false, expected layers "
                                   "whose tokens can attend to later tokens, found {}; use a causal model",
                                   found->second));
      refused.insert(config.architecture);
      continue;
    }
    ModelSpec expected_spec = make_spec(causal);
    for (BlockSpec& block : expected_spec.blocks) {
      auto* const attention = std::get_if<AttentionSpec>(&block.attention);
      if (attention != nullptr && attention->pattern.window) ++*attention->pattern.window;
    }
    const std::unique_ptr<WeightSource> source = open_checkpoint(fixture.folder);
    ModelUnderTest found(comm, config, *source, {.weights = WeightType::f32});
    ModelUnderTest expected(comm, expected_spec, *source,
                            {.weights = WeightType::f32, .bidirectional = true});
    ModelUnderTest earlier(comm, causal, *source, {.weights = WeightType::f32});
    const std::vector<float> logits = found.append(fixture.prompt);
    const std::vector<float> same = expected.append(fixture.prompt);
    const std::vector<float> others = earlier.append(fixture.prompt);
    ASSERT_EQ(logits.size(), same.size());
    double apart = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      ASSERT_NEAR(logits[i], same[i], std::max(1e-4, 4 * fixture.noise)) << i;
      apart = std::max(apart, std::abs(static_cast<double>(logits[i]) - others[i]));
    }
    EXPECT_GT(apart, 1e-2);
  }
  EXPECT_GE(refused.size(), comm.size() == 1 ? 10U : 1U);
}

TEST(NonCausal, GgufFilesSayItAndKeepTheResults) {
  Communicator& comm = test::world();
  for (const char* const name : {"llama-gqa", "qwen3", "gptneox", "deepseek2-lite"}) {
    SCOPED_TRACE(name);
    const Fixture fixture = reference::fixture(name);
    const TemporaryDirectory directory;
    const std::filesystem::path folder = directory.path() / "model";
    std::filesystem::copy(fixture.folder, folder);
    std::filesystem::permissions(folder / "config.json", std::filesystem::perms::owner_all);
    std::ofstream(folder / "config.json") << json_with(fixture, false).dump();
    const std::filesystem::path file = directory.path() / "model.gguf";
    quantize_model({.model = folder, .name = "model", .weights = "f32", .output = file},
                   [](std::uint64_t, std::uint64_t) {});
    const CheckpointConfig config = load_config(file);
    EXPECT_FALSE(config.is_causal);
    const std::unique_ptr<WeightSource> in_file = open_checkpoint(file);
    const std::unique_ptr<WeightSource> in_folder = open_checkpoint(folder);
    ModelUnderTest found(comm, config, *in_file, {.weights = WeightType::f32});
    ModelUnderTest expected(comm, load_config(folder), *in_folder, {.weights = WeightType::f32});
    const std::vector<float> logits = found.append(fixture.prompt);
    const std::vector<float> same = expected.append(fixture.prompt);
    ASSERT_EQ(logits.size(), same.size());
    for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], same[i], 1e-4) << i;
  }
}

TEST(NonCausal, WindowsOfGgufFilesAreRefusedBecauseLlamaCppSeesMore) {
  const Fixture fixture = reference::fixture("mistral-swa8");
  const TemporaryDirectory directory;
  const std::filesystem::path folder = directory.path() / "model";
  std::filesystem::copy(fixture.folder, folder);
  std::filesystem::permissions(folder / "config.json", std::filesystem::perms::owner_all);
  std::ofstream(folder / "config.json") << json_with(fixture, false).dump();
  const std::string error = error_of<ConfigError>([&] {
    quantize_model(
        {.model = folder, .name = "model", .weights = "f32", .output = directory.path() / "x.gguf"},
        [](std::uint64_t, std::uint64_t) {});
  });
  EXPECT_EQ(
      error,
      "cannot write model as a GGUF file: is_causal is false, expected layers without a sliding window, "
      "found some with one; use the checkpoint without converting it");
}

}  // namespace
}  // namespace tp
