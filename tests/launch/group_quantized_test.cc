// Checkpoints of 4 bits wherever --model is taken.
#include "tests/reference/group_quantized.h"

#include "model/weights/checkpoint/mapped_file.h"
#include "model/weights/checkpoint/safetensors_header.h"
#include "tests/launch/program.h"
#include "tests/reference/fixture.h"

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using reference::GroupFormat;
using reference::GroupQuantized;

const std::filesystem::path kFixture = reference::seeded_folder("logits", "llama-rope-yarn");

nlohmann::json config_with(const nlohmann::json& quantization) {
  std::ifstream file(kFixture / "config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  return config;
}

// The fixture in AWQ with groups of 32, and the same numbers in float32.
struct Models {
  TemporaryDirectory awq;
  TemporaryDirectory plain;

  Models() {
    const MappedFile file(kFixture / "model.safetensors");
    std::vector<TestTensor> quantized;
    std::vector<TestTensor> dequantized;
    for (const StoredTensor& tensor : parse_safetensors_header(file.bytes(), file.name()).tensors) {
      std::vector<float> values(tensor.bytes.size() / sizeof(float));
      std::memcpy(values.data(), file.bytes().data() + tensor.bytes.begin, tensor.bytes.size());
      if (!tensor.name.ends_with("_proj.weight")) {
        quantized.push_back({tensor.name, "F32", tensor.shape, bytes_of(values)});
        dequantized.push_back(quantized.back());
        continue;
      }
      const GroupQuantized weight(values, tensor.shape[0], tensor.shape[1], 32, false, false);
      dequantized.push_back({tensor.name, "F32", tensor.shape, bytes_of(weight.values())});
      for (TestTensor& part : weight.tensors(tensor.name.substr(0, tensor.name.size() - 7), GroupFormat::awq))
        quantized.push_back(std::move(part));
    }
    awq.write("model.safetensors", safetensors_file(quantized));
    awq.write("config.json", config_with(reference::quantization_config(GroupFormat::awq, 32)).dump());
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
  const Models models;
  const std::vector<int> expected = tokens_of(kNoMpirun, models.plain.path());
  EXPECT_EQ(tokens_of(kNoMpirun, models.awq.path()), expected);
  EXPECT_EQ(tokens_of(3, models.awq.path()), expected);
}

TEST(GroupQuantizedModel, IsInspected) {
  const Models models;
  const Finished finished = run(kNoMpirun, {"inspect", "--model", models.awq.path().string(), "--json"});
  expect_success(finished);
  const nlohmann::json types = nlohmann::json::parse(finished.out).at("stored_types");
  ASSERT_EQ(types.size(), 2U);
  EXPECT_EQ(types[0].at("type"), "AWQ int4, groups of 32");
  EXPECT_EQ(types[0].at("tensors"), 14);
  EXPECT_EQ(types[0].at("held_as"), "int4_g32");
  EXPECT_EQ(types[1].at("type"), "F32");
}

TEST(GroupQuantizedModel, IsRefusedByNameIfItsQuantizationIsAnotherOne) {
  const TemporaryDirectory folder;
  std::filesystem::copy_file(kFixture / "model.safetensors", folder.path() / "model.safetensors");
  folder.write("config.json", config_with({{"quant_method", "bitsandbytes"}}).dump());
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    expect_one_error(run(ranks, {"generate", "--model", folder.path().string(), "--tokens",
                                 (kFixture / "prompt.json").string(), "--max-tokens", "2"}),
                     1,
                     "quantization_config: quant_method must be awq, gptq, compressed-tensors, fp8, modelopt "
                     "or mxfp4, found "
                     "bitsandbytes; take the model");
  }
}

}  // namespace
}  // namespace tp::test
