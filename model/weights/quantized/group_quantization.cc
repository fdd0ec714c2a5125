#include "model/weights/quantized/group_quantization.h"

#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "model/weights/quantized/quantization_config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Method = GroupQuantization::Method;

constexpr const char* kAdvice =
    "take the model quantized in another way, or the original one with --weights int4 or int8";

// Reports a field of quantization_config: what was expected and found, and what to do.
[[noreturn]] void refuse(const std::string& file, std::string_view field, std::string_view expected,
                         const std::string& found) {
  throw_error<ConfigError>("{}: quantization_config: {} must be {}, found {}; {}", file, field, expected,
                           printable(found), kAdvice);
}

unsigned bits_of(const JsonNode& fields, std::string_view field, const std::string& file) {
  const std::size_t bits = fields.at(field).size();
  if (bits != 4 && bits != 8) refuse(file, field, "4 or 8", std::to_string(bits));
  return static_cast<unsigned>(bits);
}

GroupQuantization awq(const JsonNode& fields, const std::string& file) {
  const unsigned bits = bits_of(fields, fields.name_of({"bits", "w_bit"}), file);
  const std::string version = lower_case(fields.string_or("version", "gemm"));
  if (version != "gemm") refuse(file, "version", "gemm", version);
  return {.method = Method::awq, .bits = bits};
}

GroupQuantization gptq(const JsonNode& fields, const std::string& file) {
  const std::string format = lower_case(fields.string_or("checkpoint_format", "gptq"));
  if (format != "gptq" && format != "gptq_v2") refuse(file, "checkpoint_format", "gptq or gptq_v2", format);
  if (fields.boolean_or("is_marlin_format", false)) refuse(file, "is_marlin_format", "false", "true");
  return {.method = Method::gptq,
          .bits = bits_of(fields, "bits", file),
          .zero_points_less_one = format == "gptq"};
}

// Rows and columns of a block.
void take_block(const JsonNode& fields, std::string_view field, GroupQuantization& out,
                const std::string& file) {
  const std::vector<std::size_t> block = fields.list_or_empty(field, &JsonNode::size);
  if (block.empty()) return;
  if (block.size() != 2) refuse(file, field, "two numbers", std::to_string(block.size()));
  out.block_rows = block[0];
  out.block_columns = block[1];
}

GroupQuantization fp8(const JsonNode& fields, const std::string& file) {
  const std::string format = lower_case(fields.string_or("fmt", "e4m3"));
  if (format != "e4m3" && format != "float8_e4m3fn") refuse(file, "fmt", "e4m3", format);
  GroupQuantization out{.method = Method::fp8};
  take_block(fields, "weight_block_size", out, file);
  return out;
}

// NVIDIA's Model Optimizer. Its FP8 and NVFP4 algorithms differ in how they quantize activations. The shape
// of the scales shows which weights share them. A model with NVFP4 may also have weights in FP8, and
// MIXED_PRECISION lists them; their tensors show the same.
GroupQuantization modelopt(const JsonNode& fields, const std::string& file) {
  constexpr const char* kFp8[] = {"fp8", "fp8_per_channel_per_token", "fp8_pb_wo", "mxfp8"};
  constexpr const char* kNvfp4[] = {"nvfp4", "w4a16_nvfp4", "mixed_precision"};
  const std::string algorithm = fields.at("quant_algo").string();
  const auto is_in = [lower = lower_case(algorithm)](const auto& list) {
    return std::ranges::find(list, lower) != std::end(list);
  };
  if (is_in(kFp8)) return {.method = Method::fp8};
  if (is_in(kNvfp4)) return {.method = Method::nvfp4};
  refuse(file, "quant_algo",
         "FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, MXFP8, NVFP4, W4A16_NVFP4 or MIXED_PRECISION",
         algorithm);
}

// Only nf4, with or without double quantization.
GroupQuantization bitsandbytes(const JsonNode& fields, const std::string& file) {
  if (fields.boolean_or("load_in_8bit", false)) refuse(file, "load_in_8bit", "false", "true");
  const std::string type = lower_case(fields.string_or("bnb_4bit_quant_type", "fp4"));
  if (type != "nf4") refuse(file, "bnb_4bit_quant_type", "nf4", type);
  return {.method = Method::bitsandbytes};
}

void require_nvfp4(const JsonNode& weights, const std::string& file) {
  const std::size_t group = weights.size_or("group_size", 16);
  if (group != 16) refuse(file, "group_size", "16 for 4-bit floats", std::to_string(group));
}

GroupQuantization compressed_tensors(const JsonNode& fields, const std::string& file) {
  // "dense" means that only the KV cache is quantized, not the weights.
  constexpr const char* kFormats[] = {
      "pack-quantized",  "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized",
      "mixed-precision", "dense"};
  const auto require_format = [&](const std::string& format) {
    if (std::ranges::find(kFormats, format) == std::end(kFormats))
      refuse(file, "format",
             "pack-quantized, int-quantized, float-quantized, naive-quantized, nvfp4-pack-quantized or "
             "mixed-precision",
             format);
  };
  require_format(fields.string_or("format", "none"));
  GroupQuantization out{.method = Method::compressed_tensors, .bits = 0};
  bool has_several = false;
  const std::optional<JsonNode> groups = fields.find("config_groups");
  if (!groups) return out;
  groups->for_each_member([&](const std::string& name, const nlohmann::json& value) {
    const JsonNode group(value, file + ": config_groups." + name);
    if (group.has("format")) require_format(group.at("format").string());
    const JsonNode weights = group.at("weights");
    const std::string type = weights.string_or("type", "int");
    if (type == "float") {
      const std::size_t bits = weights.at("num_bits").size();
      if (bits == 4) return require_nvfp4(weights, file);
      if (bits != 8) refuse(file, "num_bits", "4 or 8", std::to_string(bits));
      return take_block(weights, "block_structure", out, file);
    }
    if (type != "int") refuse(file, "type", "int or float", type);
    const unsigned bits = bits_of(weights, "num_bits", file);
    has_several = has_several || (out.bits != 0 && out.bits != bits);
    out.bits = bits;
  });
  if (has_several) out.bits = 0;
  return out;
}

}  // namespace

std::string_view name_of(GroupQuantization::Method method) {
  switch (method) {
    case GroupQuantization::Method::awq:
      return "AWQ";
    case GroupQuantization::Method::gptq:
      return "GPTQ";
    case GroupQuantization::Method::compressed_tensors:
      return "compressed-tensors";
    case GroupQuantization::Method::mxfp4:
      return "MXFP4";
    case GroupQuantization::Method::nvfp4:
      return "NVFP4";
    case GroupQuantization::Method::bitsandbytes:
      return "bitsandbytes";
    default:
      return "FP8";
  }
}

std::optional<GroupQuantization> find_group_quantization(const std::filesystem::path& model) {
  const std::optional<QuantizationConfig> config = find_quantization_config(model);
  if (!config) return std::nullopt;
  const JsonNode fields(config->fields, config->file);
  const std::string& file = config->file;
  const std::string& method = config->method;
  // GPT-2 stores projections transposed, but these tools do not.
  require<ConfigError>(
      config->model_type != "gpt2",
      "{}: quantization_config: {} weights of GPT-2 cannot be read, expected unquantized ones; "
      "take the original model with --weights int4 or int8",
      file, printable(method));
  if (method == "awq") return awq(fields, file);
  if (method == "gptq") return gptq(fields, file);
  if (method == "compressed-tensors") return compressed_tensors(fields, file);
  if (method == "fp8" || method == "fbgemm_fp8") return fp8(fields, file);
  if (method == "modelopt") return modelopt(fields, file);
  if (method == "mxfp4") return GroupQuantization{.method = Method::mxfp4};
  if (method == "bitsandbytes") return bitsandbytes(fields, file);
  refuse(file, "quant_method", "awq, gptq, compressed-tensors, fp8, modelopt, mxfp4 or bitsandbytes", method);
}

}  // namespace tp
