// Types of quantized weights from a config.json alone.
#include "model/weights/quantized/quantized_layers.h"

#include "model/weights/quantized/group_checkpoint.h"
#include "model/weights/quantized/quantized_matrices.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::error_of;
using test::TemporaryDirectory;

constexpr MatrixShape kShape{512, 1024};

struct BareConfig {
  explicit BareConfig(const json& quantization, const std::string& file = "config.json") {
    if (file == "config.json")
      directory.write(file, json{{"quantization_config", quantization}}.dump());
    else
      directory.write("config.json", "{}");
    if (file != "config.json") directory.write(file, quantization.dump());
  }
  std::vector<QuantizedLayers> layers() const {
    return find_quantized_layers(directory.path() / "config.json");
  }
  std::string description() const {
    const std::vector<QuantizedLayers> all = layers();
    if (all.empty()) return "plain";
    const StoredGroups weight = all.front().stored(kShape);
    return fmt::format("{}: {}", description_of(weight, all.front().method), name_of(type_of(weight)));
  }
  TemporaryDirectory directory;
};

json compressed(const json& weights, const std::string& format) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head"}},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

// The settings are from the tools' own files.
TEST(QuantizedLayers, AreKnownOfEveryMethodThatCanBeRead) {
  const std::pair<json, std::string> cases[] = {
      {{{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "gemm"}},
       "AWQ int4, groups of 128: int4_g128"},
      {{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"desc_act", false}},
       "GPTQ int4, groups of 32: int4_g32"},
      {{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"desc_act", true}},
       "GPTQ int4, act-order: int4_scaled"},
      {{{"quant_method", "gptq"}, {"bits", 8}, {"group_size", -1}, {"desc_act", false}},
       "GPTQ int8, a group a row: int8_scaled"},
      {{{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}, "F8_E4M3, blocks of 128 x 128: f8_e4m3"},
      {{{"quant_method", "fp8"}, {"activation_scheme", "static"}}, "F8_E4M3, one scale: f8_e4m3"},
      {{{"quant_method", "fbgemm_fp8"}}, "F8_E4M3, a group a row: f8_e4m3"},
      {{{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, "F8_E4M3, one scale: f8_e4m3"},
      {{{"quant_algo", "FP8_PB_WO"}}, "F8_E4M3, blocks of 128 x 128: f8_e4m3"},
      {{{"quant_method", "mxfp4"}}, "MXFP4: mxfp4"},
      {{{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}, "NVFP4: nvfp4"},
      {{{"quant_algo", "W4A16_NVFP4"}}, "NVFP4: nvfp4"},
      {compressed({{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}},
                  "nvfp4-pack-quantized"),
       "NVFP4: nvfp4"},
      {compressed({{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}},
                  "mxfp4-pack-quantized"),
       "MXFP4: mxfp4"},
      {{{"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}}, "bitsandbytes nf4, groups of 64: nf4"},
      {compressed({{"num_bits", 4}, {"strategy", "group"}, {"group_size", 64}}, "pack-quantized"),
       "compressed-tensors int4, groups of 64: int4_g64"},
      {compressed({{"num_bits", 8}, {"strategy", "channel"}}, "int-quantized"),
       "compressed-tensors int8, a group a row: int8_scaled"},
      {compressed({{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}}, "float-quantized"),
       "F8_E4M3, one scale: f8_e4m3"},
      {{{"quant_method", "compressed-tensors"}, {"format", "dense"}, {"kv_cache_scheme", {{"num_bits", 8}}}},
       "plain"},
      {{{"quant_method", "compressed-tensors"},
        {"format", "dense"},
        {"config_groups", {{"group_0", {{"targets", {"re:.*self_attn$"}}, {"weights", nullptr}}}}}},
       "plain"},
      {{{"quant_method", "modelopt"}, {"quant_algo", nullptr}, {"kv_cache_quant_algo", "FP8"}}, "plain"},
      {{{"quant_algo", nullptr}, {"kv_cache_quant_algo", "FP8"}}, "plain"},
      {nullptr, "plain"}};
  for (const auto& [quantization, expected] : cases)
    EXPECT_EQ(BareConfig(quantization).description(), expected) << quantization;
}

TEST(QuantizedLayers, AreKnownFromTheFilesOfEarlierTools) {
  EXPECT_EQ(BareConfig(json{{"producer", {{"name", "modelopt"}}}, {"quantization", {{"quant_algo", "FP8"}}}},
                       "hf_quant_config.json")
                .description(),
            "F8_E4M3, one scale: f8_e4m3");
  EXPECT_EQ(BareConfig(json{{"bits", 4}, {"group_size", 128}, {"desc_act", false}}, "quantize_config.json")
                .description(),
            "GPTQ int4, groups of 128: int4_g128");
  EXPECT_EQ(BareConfig(json{{"w_bit", 4}, {"q_group_size", 64}, {"version", "GEMM"}}, "quant_config.json")
                .description(),
            "AWQ int4, groups of 64: int4_g64");
  const TemporaryDirectory directory;
  directory.write("config.json",
                  json{{"text_config", {{"quantization_config", {{"quant_method", "mxfp4"}}}}}}.dump());
  EXPECT_EQ(find_group_quantization(directory.path())->method, GroupQuantization::Method::mxfp4);
}

TEST(QuantizedLayers, AreRejectedByNameForOtherMethods) {
  for (const char* method : {"torchao", "quark", "aqlm", "hqq", "eetq", "quanto", "higgs", "vptq", "spqr",
                             "bitnet", "fp_quant", "auto-round", "exl2", "marlin", "nvfp4"}) {
    EXPECT_CONTAINS(error_of<ConfigError>([&] {
                      BareConfig(json{{"quant_method", method}}).layers();
                    }),
                    fmt::format("found {}; use a different quantization of the model", method));
  }
  const std::pair<json, std::string> cases[] = {
      {{{"load_in_4bit", true}, {"bnb_4bit_quant_type", "fp4"}},
       "bnb_4bit_quant_type of bitsandbytes must be nf4, found fp4"},
      {{{"load_in_8bit", true}}, "load_in_8bit of bitsandbytes must be false, found true"},
      {{{"bits", 4}, {"group_size", 64}}, "as in the format of MLX"},
      {{{"quant_method", "gptq"}, {"bits", 3}, {"group_size", 128}}, "bits of gptq must be 4 or 8, found 3"},
      {{{"quant_method", "awq"}, {"bits", 4}, {"version", "marlin"}},
       "version of awq must be gemm, found marlin"},
      {{{"quant_method", "modelopt"}, {"quant_algo", "NVFP4_AWQ"}}, "found NVFP4_AWQ"},
      {{{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}},
       "expected quantized_layers or config_groups with the layers of MIXED_PRECISION, found none; inspect "
       "the "
       "model's folder with its weights or hf_quant_config.json instead"},
      {compressed({{"num_bits", 4}, {"type", "float"}}, "mxfp8-pack-quantized"),
       "found mxfp8-pack-quantized"}};
  for (const auto& [quantization, expected] : cases)
    EXPECT_CONTAINS(error_of<ConfigError>([&, &of = quantization] { BareConfig(of).layers(); }), expected);
  const TemporaryDirectory mlx;
  mlx.write("config.json", R"({"quantization": {"bits": 4, "group_size": 64}})");
  EXPECT_CONTAINS(error_of<ConfigError>([&] { find_quantized_layers(mlx.path()); }),
                  "as in the format of MLX");
}

TEST(QuantizedLayers, AreAllLayersInBlocksThatAreNotExempt) {
  const auto included = [](const json& quantization, const std::string& tensor) {
    return BareConfig(quantization).layers().front().include(tensor);
  };
  json fields = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  EXPECT_TRUE(included(fields, "model.layers.3.mlp.gate_proj.weight"));
  EXPECT_FALSE(included(fields, "model.layers.3.self_attn.q_proj.bias"));
  EXPECT_FALSE(included(fields, "model.embed_tokens.weight"));
  EXPECT_FALSE(included(fields, "lm_head.weight"));
  fields["modules_to_not_convert"] = {"gate", "self_attn", "model.layers.1"};
  EXPECT_TRUE(included(fields, "model.layers.3.mlp.gate_proj.weight"));
  EXPECT_FALSE(included(fields, "model.layers.3.mlp.gate.weight"));
  EXPECT_FALSE(included(fields, "model.layers.3.self_attn.q_proj.weight"));
  EXPECT_FALSE(included(fields, "model.layers.1.mlp.up_proj.weight"));
  EXPECT_TRUE(included(fields, "model.layers.11.mlp.up_proj.weight"));
  const json modelopt = {{"quant_method", "modelopt"},
                         {"quant_algo", "FP8"},
                         {"exclude_modules", {"*self_attn*", "model.layers.0.*"}}};
  EXPECT_FALSE(included(modelopt, "model.layers.3.self_attn.q_proj.weight"));
  EXPECT_FALSE(included(modelopt, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(included(modelopt, "model.layers.3.mlp.up_proj.weight"));
  const json nf4 = {{"load_in_4bit", true},
                    {"bnb_4bit_quant_type", "nf4"},
                    {"llm_int8_skip_modules", {"lm_head", "model.layers.1.mlp"}}};
  EXPECT_FALSE(included(nf4, "model.layers.1.mlp.up_proj.weight"));
  EXPECT_TRUE(included(nf4, "model.layers.3.mlp.up_proj.weight"));
  json tensors = compressed({{"num_bits", 4}, {"strategy", "group"}, {"group_size", 64}}, "pack-quantized");
  tensors["ignore"] = {"re:.*self_attn", "lm_head", R"(re:model\.layers\.(?P<number>\d+)\.mlp\.gate\Z)"};
  EXPECT_FALSE(included(tensors, "model.layers.3.self_attn.q_proj.weight"));
  EXPECT_TRUE(included(tensors, "model.layers.3.mlp.up_proj.weight"));
  EXPECT_FALSE(included(tensors, "model.layers.3.mlp.gate.weight"));
  tensors["ignore"] = {"re:layers"};
  EXPECT_TRUE(included(tensors, "model.layers.3.mlp.up_proj.weight")) << "it does not begin with the pattern";
  EXPECT_TRUE(included({{"quant_method", "mxfp4"}}, "model.layers.3.mlp.experts.7.up_proj.weight"));
  EXPECT_FALSE(included({{"quant_method", "mxfp4"}}, "model.layers.3.self_attn.q_proj.weight"));
}

// The type of a tensor, or "plain".
std::string type_in(const std::vector<QuantizedLayers>& all, const std::string& tensor) {
  const auto found =
      std::ranges::find_if(all, [&](const QuantizedLayers& layers) { return layers.include(tensor); });
  return found == all.end() ? "plain" : std::string(name_of(type_of(found->stored(kShape))));
}

TEST(QuantizedLayers, FollowGptqModelsRules) {
  json fields = {{"quant_method", "gptq"},
                 {"bits", 4},
                 {"group_size", 128},
                 {"dynamic",
                  {{R"(-:.*\.down_proj)", json::object()},
                   {R"(+:.*\.1\..*)", {{"bits", 8}}},
                   {R"(.*\.2\..*)", {{"group_size", 32}}},
                   {R"(.*\.3\..*)", {{"desc_act", true}}}}}};
  for (const char* const method : {"gptq", "awq"}) {
    fields["quant_method"] = method;
    const std::vector<QuantizedLayers> all = BareConfig(fields).layers();
    EXPECT_EQ(type_in(all, "model.layers.0.mlp.up_proj.weight"), "int4_g128");
    EXPECT_EQ(type_in(all, "model.layers.0.mlp.down_proj.weight"), "plain");
    EXPECT_EQ(type_in(all, "model.layers.1.mlp.up_proj.weight"), "int8_scaled");
    EXPECT_EQ(type_in(all, "model.layers.2.mlp.up_proj.weight"), "int4_g32");
    EXPECT_EQ(type_in(all, "model.layers.3.mlp.up_proj.weight"), "int4_scaled");
    EXPECT_EQ(type_in(all, "lm_head.weight"), "plain");
  }
  fields["lm_head"] = true;
  EXPECT_EQ(type_in(BareConfig(fields).layers(), "lm_head.weight"), "int4_g128");
}

// nlohmann::json sorts members: "-:" comes before ".".
TEST(QuantizedLayers, FollowTheFirstMatchingRule) {
  const auto type_with = [](const char* rules) {
    const TemporaryDirectory folder;
    folder.write("config.json", fmt::format(R"({{"quantization_config": {{"quant_method": "gptq", "bits": 4,
      "dynamic": {{{}}}}}}})",
                                            rules));
    return type_in(find_quantized_layers(folder.path()), "model.layers.1.mlp.up_proj.weight");
  };
  EXPECT_EQ(type_with(R"(".*\\.1\\..*": {"bits": 8}, "-:.*up_proj": {})"), "int8_scaled");
  EXPECT_EQ(type_with(R"("-:.*up_proj": {}, ".*\\.1\\..*": {"bits": 8})"), "plain");
  EXPECT_EQ(type_with(R"("+:.*up_proj": {"group_size": 64}, "+:.*\\.1\\..*": {"bits": 8})"), "int4_g64");
}

TEST(QuantizedLayers, AreTheLayersInTheListsOfModules) {
  for (const json& lists :
       {json{{"self_attn.q_proj"}, {"mlp.up_proj"}}, json{"self_attn.q_proj", "mlp.up_proj"}}) {
    const QuantizedLayers layers =
        BareConfig({{"quant_method", "gptq"}, {"bits", 4}, {"modules_in_block_to_quantize", lists}})
            .layers()
            .front();
    EXPECT_TRUE(layers.include("model.layers.3.mlp.up_proj.weight"));
    EXPECT_FALSE(layers.include("model.layers.3.mlp.down_proj.weight"));
  }
}

// The lists are nvidia/Qwen3.6-35B-A3B-NVFP4's, in config.json or in ModelOpt's own file.
TEST(QuantizedLayers, AreReadFromListsOfMixedPrecision) {
  const json lists = {
      {"quant_algo", "MIXED_PRECISION"},
      {"kv_cache_quant_algo", "FP8"},
      {"exclude_modules", {"mtp*"}},
      {"quantized_layers",
       {{"model.language_model.layers.0.mlp.experts", {{"quant_algo", "W4A16_NVFP4"}, {"group_size", 16}}},
        {"model.language_model.layers.3.self_attn.q_proj", {{"quant_algo", "FP8"}}},
        {"lm_head", {{"quant_algo", "NVFP4"}, {"group_size", 16}}}}}};
  const auto expect_types = [](const std::vector<QuantizedLayers>& all) {
    for (const char* const prefix : {"model.", "language_model.model.", "model.language_model."}) {
      const std::string layers = std::string(prefix) + "layers.";
      EXPECT_EQ(type_in(all, layers + "0.mlp.experts.7.up_proj.weight"), "nvfp4");
      EXPECT_EQ(type_in(all, layers + "3.self_attn.q_proj.weight"), "f8_e4m3");
      EXPECT_EQ(type_in(all, layers + "3.self_attn.k_proj.weight"), "plain");
      EXPECT_EQ(type_in(all, layers + "1.mlp.experts.7.up_proj.weight"), "plain");
    }
    EXPECT_EQ(type_in(all, "lm_head.weight"), "nvfp4");
    EXPECT_EQ(all.back().stored(kShape).groups.row_block, 1U);
    EXPECT_EQ(all.front().stored(kShape).groups.row_block, kShape.rows) << "one scale";
  };
  const BareConfig in_config(lists);
  expect_types(in_config.layers());
  const BareConfig in_own_file(json{{"producer", {{"name", "modelopt"}}}, {"quantization", lists}},
                               "hf_quant_config.json");
  expect_types(in_own_file.layers());
  in_own_file.directory.write(
      "config.json",
      json{{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}}}}
          .dump());
  expect_types(in_own_file.layers());
}

TEST(QuantizedLayers, AreReadFromGroupsOfMixedPrecision) {
  const json groups = {
      {"fp8",
       {{"targets", {"model.layers.0.mixer.in_proj"}}, {"weights", {{"num_bits", 8}, {"type", "float"}}}}},
      {"nvfp4",
       {{"targets", {"model.layers.0.mixer.up_proj"}},
        {"weights", {{"num_bits", 4}, {"type", "float"}, {"group_size", 16}}}}}};
  const std::vector<QuantizedLayers> all =
      BareConfig({{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}, {"config_groups", groups}})
          .layers();
  EXPECT_EQ(type_in(all, "model.layers.0.mixer.in_proj.weight"), "f8_e4m3");
  EXPECT_EQ(type_in(all, "model.layers.0.mixer.up_proj.weight"), "nvfp4");
  EXPECT_EQ(type_in(all, "model.layers.1.mixer.up_proj.weight"), "plain");
}

TEST(QuantizedLayers, MatchWildcardsInAnyPlaceAndNumber) {
  const auto is_exempt = [](const std::string& pattern, const std::string& layer) {
    return LayerPatterns({pattern}, "config.json").match(layer);
  };
  for (const char* const pattern :
       {"*", "*a.0.b*", "a.0.*", "a*b", "a.*b", "*.*", "a.0.b*", "**a**b**", "*b"})
    EXPECT_TRUE(is_exempt(pattern, "a.0.b")) << pattern;
  EXPECT_TRUE(is_exempt("*aab", "aaaab"));
  EXPECT_TRUE(is_exempt("a.*", "a.0.b.c"));
  EXPECT_TRUE(is_exempt("*.0", "a.0.b")) << "what is in the layer";
  for (const char* const pattern : {"*c", "c*", "a*c*b", "*.1.*", "b*a", "a.0.b*b"})
    EXPECT_FALSE(is_exempt(pattern, "a.0.b")) << pattern;
  EXPECT_FALSE(is_exempt(std::string(200, '*') + "!", std::string(100, 'a')));
}

TEST(QuantizedLayers, RejectExpressionsThatTakeTooLong) {
  json fields = compressed({{"num_bits", 4}, {"strategy", "group"}, {"group_size", 64}}, "pack-quantized");
  const auto error_with = [&](const std::string& pattern) {
    fields["ignore"] = {pattern};
    return error_of<ConfigError>([&] {
      BareConfig(fields).layers().front().include("model.layers.3.mlp." + std::string(60, 'a') + ".weight");
    });
  };
  EXPECT_CONTAINS(
      error_with("re:("),
      "config.json: quantization_config: cannot determine which layers are quantized: expected regular "
      "expressions of Python, found: the pattern '(' is wrong at 1: missing closing parenthesis; "
      "correct the file");
  EXPECT_CONTAINS(error_with("re:" + std::string(100000, '(')), "parentheses are too deeply nested");
  EXPECT_CONTAINS(error_with("re:.*\\.(a+)+[bc]"), "match limit exceeded");
}

TEST(QuantizedLayers, HaveGroupsOfWholeNumbers) {
  for (const json& size : {json(1e300), json(1.5), json("128"), json(std::uint64_t{1} << 63)}) {
    EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                      BareConfig({{"quant_method", "awq"}, {"bits", 4}, {"group_size", size}}).layers();
                    }),
                    "cannot use group_size");
  }
}

}  // namespace
}  // namespace tp
