// Every field of quantization_config is supported, has no effect, or is rejected by name.
#include "model/weights/quantized/quantization_fields.h"

#include "model/weights/quantized/group_quantization.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::error_of;
using test::TemporaryDirectory;

void read(const json& quantization) {
  const TemporaryDirectory folder;
  folder.write("config.json", json{{"quantization_config", quantization}}.dump());
  find_group_quantization(folder.path());
}

std::string refusal_of(const json& quantization) {
  return error_of<ConfigError>([&] { read(quantization); });
}

// The members that a tool writes, with values that this program computes.
struct Published {
  const char* source;
  const char* members;
};

constexpr Published kPublished[] = {{"transformers' GPTQConfig, and optimum's fields before it", R"({
      "quant_method": "gptq", "bits": 4, "tokenizer": null, "dataset": ["c4"], "group_size": 128,
      "damp_percent": 0.1, "desc_act": true, "act_group_aware": false, "sym": true, "true_sequential": true,
      "checkpoint_format": "gptq", "meta": {"quantizer": ["optimum:1.2"]}, "backend": "auto",
      "model_seqlen": 2048, "block_name_to_quantize": "model.layers",
      "module_name_preceding_first_block": ["model.embed_tokens"], "batch_size": 1, "pad_token_id": 0,
      "max_input_length": 2048, "cache_block_outputs": true,
      "modules_in_block_to_quantize": [["self_attn.q_proj"]], "use_cuda_fp16": false, "use_exllama": true,
      "disable_exllama": false, "exllama_config": {"version": 2}, "exllama_version": 2})"},
                                    {"AutoGPTQ's BaseQuantizeConfig", R"({
      "bits": 4, "group_size": -1, "damp_percent": 0.01, "desc_act": true, "static_groups": false, "sym": true,
      "true_sequential": true, "quant_method": "gptq", "checkpoint_format": "gptq", "is_marlin_format": false,
      "awq_gemm_checkpoint": false, "model_name_or_path": "a/b", "model_file_base_name": "model"})"},
                                    {"GPTQModel's QuantizeConfig", R"({
      "bits": 4, "dynamic": {"-:.*gate": {}, "+:.*down": {"bits": 8, "group_size": 64, "desc_act": false,
      "sym": true, "mse": 0.1, "damp_percent": 0.1}}, "group_size": 128, "desc_act": false, "lm_head": true,
      "method": "gptq", "quant_method": "gptq", "format": "gptq_v2", "checkpoint_format": "gptq_v2",
      "pack_dtype": "int32", "rotation": null, "adapter": null, "hyb_act": false, "sym": false,
      "damp_auto_increment": 0.01, "mse": 0.0, "device": "cuda", "pack_impl": "cpu",
      "meta": {"quantizer": ["gptqmodel:5.0"], "act_group_aware": true, "mock_quantization": false}})"},
                                    {"AutoRound's export to GPTQ", R"({
      "bits": 4, "act_bits": 16, "data_type": "int", "act_data_type": "float", "group_size": 128,
      "act_group_size": 128, "sym": true, "act_sym": true, "act_dynamic": true, "amp": true, "batch_size": 8,
      "enable_minmax_tuning": true, "enable_norm_bias_tuning": false, "enable_quanted_input": true,
      "gradient_accumulate_steps": 1, "iters": 200, "lr": 0.005, "low_gpu_mem_usage": true,
      "minmax_lr": 0.005, "nsamples": 128, "quant_block_list": [["model.layers.0"]], "scale_dtype": "float16",
      "seqlen": 2048, "supported_types": ["Linear"], "static_attention_dtype": null, "static_kv_dtype": "fp8",
      "static_attention_granularity": "tensor", "static_kv_granularity": "tensor", "super_bits": null,
      "super_group_size": null, "to_quant_block_names": "model.layers", "rotation_configs": [],
      "autoround_version": "0.12.3", "block_name_to_quantize": "model.layers", "lm_head": false,
      "provider": "auto-round", "quant_method": "gptq", "desc_act": false, "true_sequential": false,
      "damp_percent": 0.01, "modules_in_block_to_quantize": ["mlp.up_proj"]})"},
                                    {"transformers' AwqConfig", R"({
      "quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "gemm",
      "backend": "autoawq", "do_fuse": false, "fuse_max_seq_len": null, "modules_to_fuse": null,
      "modules_to_not_convert": ["visual"], "exllama_config": null})"},
                                    {"AutoAWQ's AwqConfig", R"({
      "quant_method": "awq", "zero_point": true, "q_group_size": 128, "w_bit": 4, "version": "GEMM",
      "modules_to_not_convert": null})"},
                                    {"GPTQModel's AWQConfig", R"({
      "bits": 4, "group_size": 128, "desc_act": false, "lm_head": false, "method": "awq", "quant_method": "awq",
      "format": "gemm", "checkpoint_format": "gemm", "pack_dtype": "int32", "sym": true, "zero_point": true,
      "meta": {"quantizer": ["gptqmodel:5.0"]}, "dynamic": {"-:.*router": {}}})"},
                                    {"compressed-tensors' QuantizationConfig", R"({
      "quant_method": "compressed-tensors", "version": "0.12.2", "format": "pack-quantized", "ignore": [],
      "quantization_status": "compressed", "global_compression_ratio": 1.5, "run_compressed": true,
      "kv_cache_scheme": {"num_bits": 8, "type": "float"},
      "config_groups": {"group_0": {"targets": ["Linear"], "format": "pack-quantized",
        "input_activations": {"num_bits": 8, "dynamic": true}, "output_activations": null,
        "weights": {"num_bits": 4, "type": "int", "symmetric": true, "group_size": 128, "strategy": "group",
          "block_structure": null, "dynamic": false, "actorder": "weight", "observer": "minmax",
          "observer_kwargs": {"averaging_constant": 0.1}, "scale_dtype": null, "zp_dtype": "torch.int8"}}},
      "sparsity_config": {"format": "dense", "targets": ["Linear"], "ignore": ["lm_head"],
        "global_sparsity": 0.5, "sparsity_structure": "2:4", "registry_requires_subclass": false},
      "transform_config": {"config_groups": {"R1": {"type": "hadamard", "randomize": false,
        "requires_grad": false, "head_dim": 128, "precision": "torch.float64", "apply": [{"targets": ["Linear"],
        "location": "weight_input", "inverse": true, "ignore": []}]}}}})"},
                                    {"FineGrainedFP8Config of transformers, and DeepSeek's", R"({
      "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
      "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"], "dequantize": false})"},
                                    {"FbgemmFp8Config of transformers", R"({
      "quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]})"},
                                    {"AutoFP8's BaseQuantizeConfig, and Quark's export in its form", R"({
      "quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"],
      "ignore_patterns": ["re:.*lm_head"], "kv_cache_quant_targets": ["k_proj"], "kv_cache_scheme": "static",
      "export": {"kv_cache_group": ["*k_proj"], "min_kv_scale": 0.0, "pack_method": "reorder",
        "weight_format": "real_quantized", "weight_merge_groups": null}})"},
                                    {"ModelOpt's hf_quant_config.json", R"({
      "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": [],
      "has_zero_point": false, "pre_quant_scale": false, "smoothquant_val": null, "clamp_val": null,
      "use_meta_recipe": false, "quantized_layers": {"model.layers.0.mlp.up_proj":
        {"quant_algo": "NVFP4", "group_size": 16, "has_zero_point": false, "pre_quant_scale": false}}})"},
                                    {"ModelOpt's quantization_config", R"({
      "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "kv_cache_scheme": "NVFP4",
      "producer": {"name": "modelopt", "version": "0.44"}, "config_groups": {"group_0": {"targets": ["Linear"],
        "input_activations": {"num_bits": 4}, "output_activations": null, "weights": {"dynamic": false,
        "num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group", "symmetric": true,
        "block_structure": null}}}})"},
                                    {"Mxfp4Config of transformers", R"({
      "quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"], "dequantize": false})"},
                                    {"BitsAndBytesConfig of transformers", R"({
      "quant_method": "bitsandbytes", "load_in_8bit": false, "load_in_4bit": true, "_load_in_8bit": false,
      "_load_in_4bit": true, "llm_int8_threshold": 6.0, "llm_int8_skip_modules": ["lm_head"],
      "llm_int8_enable_fp32_cpu_offload": false, "llm_int8_has_fp16_weight": false,
      "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true,
      "bnb_4bit_quant_storage": "uint8", "bnb_4bit_target_parameters": null})"}};

TEST(QuantizationFields, AreKnownForEveryTool) {
  for (const auto& [source, members] : kPublished) EXPECT_NO_THROW(read(json::parse(members))) << source;
}

// Null has no effect.
void expect_unknown_refused(const json& settings, const std::string& place) {
  const std::string pointer = place + "/unheard_of";
  std::string name = pointer.substr(1);
  std::ranges::replace(name, '/', '.');
  json changed = settings;
  changed[json::json_pointer(pointer)] = true;
  EXPECT_CONTAINS(
      refusal_of(changed),
      fmt::format("that this program knows, found {}, which may change the model's numbers; use", name));
  changed[json::json_pointer(pointer)] = nullptr;
  EXPECT_NO_THROW(read(changed)) << name;
}

TEST(QuantizationFields, AreRejectedByNameEverywhereIfUnknown) {
  for (const auto& [source, members] : kPublished) {
    SCOPED_TRACE(source);
    expect_unknown_refused(json::parse(members), "");
  }
  const std::pair<std::size_t, const char*> places[] = {{2, "/dynamic/+:.*down"},
                                                        {7, "/config_groups/group_0"},
                                                        {7, "/config_groups/group_0/weights"},
                                                        {7, "/sparsity_config"},
                                                        {7, "/transform_config"},
                                                        {7, "/transform_config/config_groups/R1"},
                                                        {7, "/transform_config/config_groups/R1/apply/0"},
                                                        {10, "/export"},
                                                        {11, "/quantized_layers/model.layers.0.mlp.up_proj"},
                                                        {12, "/config_groups/group_0/weights"}};
  for (const auto& [tool, place] : places)
    expect_unknown_refused(json::parse(kPublished[tool].members), place);
}

// `fields`: an object, or null for none.
json merged(json settings, const json& fields) {
  if (fields.is_object()) settings.update(fields);
  return settings;
}

json gptq_with(const json& fields) {
  return merged({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}}, fields);
}

json awq_with(const json& fields) {
  return merged({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}}, fields);
}

json modelopt_with(const json& fields) {
  return merged({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, fields);
}

json fp8_with(const json& fields) { return merged({{"quant_method", "fp8"}}, fields); }

json compressed_with(const json& fields, const json& of_weights = nullptr) {
  const json weights =
      merged({{"num_bits", 4}, {"type", "int"}, {"group_size", 128}, {"strategy", "group"}}, of_weights);
  return merged({{"quant_method", "compressed-tensors"},
                 {"format", "pack-quantized"},
                 {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}},
                fields);
}

// The settings of a published model with Hadamard rotations of SpinQuant.
json with_transform(const std::string& location) {
  return compressed_with(json::parse(R"({"transform_config": {"config_groups": {"R4": {"type": "hadamard",
    "apply": [{"targets": ["re:.*down_proj$"], "location": ")" +
                                     location + R"("}]}}}})"));
}

TEST(QuantizationFields, AreRejectedByNameIfTheyChangeTheArithmetic) {
  const std::pair<json, std::string> cases[] = {
      {with_transform("input"),
       "config.json: quantization_config: transform_config.config_groups.R4.apply.0.location of "
       "compressed-tensors must be weight_input or weight_output, found input; use a different quantization "
       "of the model, or the original with --weights int4 or int8"},
      {with_transform("output"),
       "location of compressed-tensors must be weight_input or weight_output, found output"},
      {with_transform("q_attn"), "found q_attn"},
      {with_transform("k_cache"), "found k_cache"},
      {compressed_with({{"transform_config", "R4"}}),
       "transform_config of compressed-tensors must be an object or a list, found R4"},
      {compressed_with({{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}),
       "sparsity_config.format of compressed-tensors must be dense, found sparse-24-bitmask"},
      {compressed_with({{"format", "marlin-24"}}),
       "nvfp4-pack-quantized, mxfp4-pack-quantized, mixed-precision or dense, found marlin-24"},
      {compressed_with({}, {{"num_bits", 3}}),
       "config_groups.group_0.weights.num_bits of compressed-tensors must be 4 or 8, found 3"},
      {compressed_with({}, {{"dynamic", true}}),
       "weights.dynamic of compressed-tensors must be false, found true"},
      {compressed_with({}, {{"dynamic", "local"}}), "must be false, found local"},
      {compressed_with({}, {{"strategy", "token"}}), "or tensor_group, found token"},
      {compressed_with({}, {{"type", "codebook"}}), "must be int or float, found codebook"},
      {compressed_with({}, {{"type", "float"}, {"group_size", 32}}), "must be 16 for 4-bit floats, found 32"},
      {compressed_with({{"format", "mxfp4-pack-quantized"}}, {{"type", "float"}, {"group_size", 16}}),
       "must be 32 for 4-bit floats, found 16"},
      {gptq_with({{"bits", 2}}), "bits of gptq must be 4 or 8, found 2"},
      {gptq_with({{"dynamic", {{"+:.*up", {{"bits", 2}}}}}}),
       "dynamic.+:.*up.bits of gptq must be 4 or 8, found 2"},
      {gptq_with({{"dynamic", {{".*up", {{"adapter", {{"rank", 8}}}}}}}}),
       "adapter of gptq must be null, found"},
      {gptq_with({{"checkpoint_format", "marlin"}}), "must be gptq or gptq_v2, found marlin"},
      {gptq_with({{"format", "gptq_p"}}), "format of gptq must be gptq or gptq_v2, found gptq_p"},
      {gptq_with({{"is_marlin_format", true}}), "must be false, found true"},
      {gptq_with({{"awq_gemm_checkpoint", true}}), "must be false, found true"},
      {gptq_with({{"pack_dtype", "int16"}}), "pack_dtype of gptq must be int32, found int16"},
      {gptq_with({{"rotation", "hadamard"}}), "rotation of gptq must be null, found hadamard"},
      {gptq_with({{"adapter", {{"name", "lora"}}}}),
       "adapter of gptq must be null, found a value of type object"},
      {gptq_with({{"rotation_configs", {{{"type", "hadamard"}}}}}), "rotation_configs of gptq must be null"},
      {gptq_with({{"super_bits", 6}}), "super_bits of gptq must be null, found 6"},
      {gptq_with({{"data_type", "mx_fp"}}), "data_type of gptq must be int, found mx_fp"},
      {awq_with({{"version", "gemv"}}), "version of awq must be gemm, found gemv"},
      {awq_with({{"backend", "llm-awq"}}), "or torch_fused_awq, found llm-awq"},
      {awq_with({{"desc_act", true}}), "desc_act of awq must be false, found true"},
      {fp8_with({{"fmt", "e5m2"}}), "fmt of fp8 must be e4m3 or float8_e4m3fn, found e5m2"},
      {fp8_with({{"weight_scale_semantics", "inverse"}}),
       "weight_scale_semantics of fp8 must be null, found inverse"},
      {fp8_with({{"export", {{"weight_format", "fake_quantized"}}}}),
       "export.weight_format of fp8 must be real_quantized"},
      {fp8_with({{"weight_block_size", {128}}}), "weight_block_size of fp8 must be two numbers, found 1"},
      {modelopt_with({{"quant_algo", "W4A16_AWQ"}}),
       "NVFP4, W4A16_NVFP4 or MIXED_PRECISION, found W4A16_AWQ"},
      {modelopt_with({{"pre_quant_scale", true}}), "pre_quant_scale of modelopt must be false, found true"},
      {modelopt_with({{"has_zero_point", true}}), "has_zero_point of modelopt must be false, found true"},
      {modelopt_with({{"clamp_val", {1.0, 2.0}}}), "clamp_val of modelopt must be null"},
      {modelopt_with({{"quantized_layers", {{"lm_head", {{"quant_algo", "W8A16"}}}}}}),
       "quantized_layers.lm_head.quant_algo of modelopt must be"},
      {{{"load_in_8bit", true}}, "load_in_8bit of bitsandbytes must be false, found true"},
      {{{"load_in_4bit", true}}, "bnb_4bit_quant_type of bitsandbytes must be nf4, found fp4"},
      {{{"load_in_4bit", true}, {"bnb_4bit_quant_type", "fp4"}}, "of bitsandbytes must be nf4, found fp4"}};
  for (const auto& [settings, expected] : cases) EXPECT_CONTAINS(refusal_of(settings), expected);
}

// Weights contain the transforms at these places.
TEST(QuantizationFields, AcceptTransformsInStoredWeights) {
  for (const char* const location : {"weight_input", "weight_output"})
    EXPECT_NO_THROW(read(with_transform(location)));
  EXPECT_NO_THROW(read(compressed_with({{"transform_config", json::object()}})));
}

// GPTQModel writes "format", too, and zero points depend on it.
TEST(QuantizationFields, AcceptBothNamesOfGptqsFormat) {
  for (const char* const name : {"checkpoint_format", "format"}) {
    for (const bool is_first : {true, false}) {
      const TemporaryDirectory folder;
      const json settings = gptq_with({{name, is_first ? "gptq" : "gptq_v2"}});
      folder.write("config.json", json{{"quantization_config", settings}}.dump());
      EXPECT_EQ(find_group_quantization(folder.path())->zero_points_less_one, is_first) << name;
    }
  }
}

TEST(QuantizationFields, AreFoundInsideModeloptsOwnFormAndUnderTheirEarlierName) {
  const TemporaryDirectory folder;
  const auto method_of = [&](const json& config) {
    folder.write("config.json", config.dump());
    return find_group_quantization(folder.path())->method;
  };
  EXPECT_EQ(
      method_of({{"quantization_config",
                  {{"producer", {{"name", "modelopt"}}}, {"quantization", {{"quant_algo", "NVFP4"}}}}}}),
      GroupQuantization::Method::nvfp4);
  EXPECT_EQ(method_of({{"compression_config", compressed_with({})}}),
            GroupQuantization::Method::compressed_tensors);
}

}  // namespace
}  // namespace tp
