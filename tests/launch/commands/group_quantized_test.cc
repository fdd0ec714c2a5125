// 4-bit checkpoints for all commands with --model.
#include "tests/reference/group_quantized.h"

#include "model/files/mapped_file.h"
#include "model/weights/safetensors/safetensors_header.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/reference/fixture.h"
#include "tests/reference/four_bit_floats.h"

#include <cstring>
#include <fstream>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using reference::FourBitFloats;
using reference::FourBitFormat;
using reference::GroupFormat;
using reference::GroupQuantized;

const std::filesystem::path kFixture = reference::seeded_folder("logits", "llama-rope-yarn");

nlohmann::json config_with(const nlohmann::json& quantization) {
  std::ifstream file(kFixture / "config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  return config;
}

// The fixture in AWQ with groups of 32 or in ModelOpt's NVFP4, and a float32 model with equal values.
struct Models {
  TemporaryDirectory quantized;
  TemporaryDirectory plain;

  explicit Models(bool is_nvfp4 = false) {
    const MappedFile file(kFixture / "model.safetensors");
    std::vector<TestTensor> stored;
    std::vector<TestTensor> dequantized;
    const auto add = [&](const StoredTensor& tensor, const auto& weight, std::vector<TestTensor> parts) {
      dequantized.push_back({tensor.name, "F32", tensor.shape, bytes_of(weight.values())});
      for (TestTensor& part : parts) stored.push_back(std::move(part));
    };
    for (const StoredTensor& tensor : parse_safetensors_header(file.bytes(), file.name()).tensors) {
      std::vector<float> values(tensor.bytes.size() / sizeof(float));
      std::memcpy(values.data(), file.bytes().data() + tensor.bytes.begin, tensor.bytes.size());
      if (!tensor.name.ends_with("_proj.weight")) {
        stored.push_back({tensor.name, "F32", tensor.shape, bytes_of(values)});
        dequantized.push_back(stored.back());
        continue;
      }
      const std::string layer = tensor.name.substr(0, tensor.name.size() - 7);
      if (is_nvfp4) {
        const FourBitFloats weight(values, tensor.shape[0], tensor.shape[1], FourBitFormat::modelopt);
        add(tensor, weight, weight.tensors(layer));
      } else {
        const GroupQuantized weight(values, tensor.shape[0], tensor.shape[1], 32, false, false);
        add(tensor, weight, weight.tensors(layer, GroupFormat::awq));
      }
    }
    quantized.write("model.safetensors", safetensors_file(stored));
    quantized.write("config.json",
                    config_with(is_nvfp4 ? reference::quantization_config(FourBitFormat::modelopt)
                                         : reference::quantization_config(GroupFormat::awq, 32))
                        .dump());
    plain.write("model.safetensors", safetensors_file(dequantized));
    plain.write("config.json", config_with(nullptr).dump());
  }
};

std::vector<int> tokens_of(std::size_t ranks, const std::filesystem::path& model) {
  const Finished finished =
      run(ranks, {"generate", "--model", model.string(), "--weights", "f32", "--tokens",
                  (kFixture / "prompt.json").string(), "--greedy", "--max-tokens", "6", "--json"});
  expect_success(finished);
  return json_lines(finished.out).at(0).at("token_ids");
}

TEST(GroupQuantizedModel, GivesTheTokensOfTheSameNumbersInFloat32) {
  for (const bool is_nvfp4 : {false, true}) {
    const Models models(is_nvfp4);
    const std::vector<int> expected = tokens_of(kNoMpirun, models.plain.path());
    EXPECT_EQ(tokens_of(kNoMpirun, models.quantized.path()), expected);
    EXPECT_EQ(tokens_of(3, models.quantized.path()), expected);
  }
}

TEST(GroupQuantizedModel, IsInspected) {
  const Models models;
  const Finished finished =
      run(kNoMpirun, {"inspect", "--model", models.quantized.path().string(), "--json"});
  expect_success(finished);
  const nlohmann::json types = nlohmann::json::parse(finished.out).at("stored_types");
  ASSERT_EQ(types.size(), 2U);
  EXPECT_EQ(types[0].at("type"), "AWQ int4, groups of 32");
  EXPECT_EQ(types[0].at("tensors"), 14);
  EXPECT_EQ(types[0].at("held_as"), "int4_g32");
  EXPECT_EQ(types[1].at("type"), "F32");
}

// Sizes predicted from config.json alone match the files' sizes.
void expect_the_same_without_weights(const Models& models, const std::string& description) {
  SCOPED_TRACE(description);
  const TemporaryDirectory bare;
  const std::string config = (bare.path() / "any-name.json").string();
  std::filesystem::copy_file(models.quantized.path() / "config.json", config);
  const auto weights_of = [](const std::string& model) {
    const Finished finished = run(kNoMpirun, {"inspect", "--model", model, "--ranks", "2", "--json"});
    expect_success(finished);
    const nlohmann::json all = nlohmann::json::parse(finished.out);
    return nlohmann::json{all.at("weights"), all.at("ranks")[0].at("weight_bytes"),
                          all.at("ranks")[1].at("weight_bytes")};
  };
  EXPECT_EQ(weights_of(config), weights_of(models.quantized.path().string()));
  EXPECT_NE(weights_of(config), weights_of((models.plain.path() / "config.json").string()));
  EXPECT_CONTAINS(run(kNoMpirun, {"inspect", "--model", config}).out,
                  "not present; weights in " + description);
  const auto planned = [](const std::string& model) {
    return nlohmann::json::parse(run(kNoMpirun, {"plan", "--model", model, "--json"}).out)
        .at("tensor")[0]
        .at("host_weight_bytes");
  };
  EXPECT_EQ(planned(config), planned(models.quantized.path().string()));
}

TEST(GroupQuantizedModel, IsInspectedAndPlannedWithoutItsWeights) {
  expect_the_same_without_weights(Models(), "AWQ int4, groups of 32");
  expect_the_same_without_weights(Models(true), "NVFP4");
}

// openai/gpt-oss-120b has 36 layers of 128 experts. 32 elements of the experts' matrices take 17 bytes. The
// remaining tensors, in bf16, take 4.2 GB.
TEST(GroupQuantizedModel, Takes61GiBForGptOss120b) {
  const TemporaryDirectory bare;
  nlohmann::json config = {{"architectures", {"GptOssForCausalLM"}},
                           {"hidden_size", 2880},
                           {"intermediate_size", 2880},
                           {"num_hidden_layers", 36},
                           {"num_attention_heads", 64},
                           {"num_key_value_heads", 8},
                           {"head_dim", 64},
                           {"vocab_size", 201088},
                           {"num_local_experts", 128},
                           {"num_experts_per_tok", 4},
                           {"sliding_window", 128},
                           {"max_position_embeddings", 131072}};  // as published, without torch_dtype
  config["quantization_config"] = {
      {"quant_method", "mxfp4"},
      {"modules_to_not_convert",
       {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}};
  const std::string path = bare.write("config.json", config.dump()).string();
  const Finished finished = run(kNoMpirun, {"inspect", "--model", path, "--context", "4096", "--json"});
  expect_success(finished);
  const double bytes = nlohmann::json::parse(finished.out).at("ranks")[0].at("weight_bytes");
  const double experts = 36.0 * 128 * 3 * 2880 * 2880 * 17 / 32;
  EXPECT_GT(bytes, experts);
  EXPECT_NEAR(bytes / (1 << 30), 61.0, 0.6);
}

// `plan` and `inspect` don't read weights.
TEST(GroupQuantizedModel, IsRefusedByNameWithoutItsWeights) {
  const TemporaryDirectory bare;
  const std::string path = bare.write("config.json", config_with({{"load_in_4bit", true}}).dump()).string();
  for (const char* command : {"inspect", "plan"})
    expect_one_error(run(kNoMpirun, {command, "--model", path}), 1,
                     "bnb_4bit_quant_type of bitsandbytes must be nf4, found fp4; use a different "
                     "quantization of the model");
}

TEST(GroupQuantizedModel, IsRefusedByNameIfItsQuantizationIsAnotherOne) {
  const TemporaryDirectory folder;
  std::filesystem::copy_file(kFixture / "model.safetensors", folder.path() / "model.safetensors");
  folder.write("config.json", config_with({{"quant_method", "torchao"}}).dump());
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    expect_one_error(
        run(ranks, {"generate", "--model", folder.path().string(), "--tokens",
                    (kFixture / "prompt.json").string(), "--max-tokens", "2"}),
        1,
        "quantization_config: quant_method must be awq, gptq, compressed-tensors, fp8, modelopt, "
        "mxfp4 or bitsandbytes, found torchao; use a different quantization of the model");
  }
}

}  // namespace
}  // namespace tp::test
