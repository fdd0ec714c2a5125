#include "model/weights/quantized/group_quantization.h"

#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "model/weights/quantized/quantization_fields.h"
#include "tp/internal/require.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Method = GroupQuantization::Method;

// Rules may give some layers a different number of bits.
bool has_rules_for_bits(const JsonNode& fields) {
  bool has_any = false;
  if (const std::optional<JsonNode> rules = fields.find("dynamic")) {
    rules->for_each_member([&](const std::string&, const nlohmann::json& changes) {
      has_any = has_any || (changes.is_object() && changes.contains("bits"));
    });
  }
  return has_any;
}

unsigned bits_of(const JsonNode& fields) {
  const std::size_t bits = fields.at(fields.name_of({"bits", "w_bit"})).size();
  return has_rules_for_bits(fields) ? 0 : static_cast<unsigned>(bits);
}

GroupQuantization gptq(const JsonNode& fields) {
  const std::string format = fields.string_or(fields.name_of({"checkpoint_format", "format"}), "gptq");
  return {
      .method = Method::gptq, .bits = bits_of(fields), .zero_points_less_one = lower_case(format) == "gptq"};
}

// Rows and columns of a block.
void take_block(const QuantizationConfig& config, const JsonNode& fields, std::string_view field,
                GroupQuantization& out) {
  const std::vector<std::size_t> block = fields.list_or_empty(field, &JsonNode::size);
  if (block.empty()) return;
  if (block.size() != 2) refuse_field(config, field, "two numbers", std::to_string(block.size()));
  out.block_rows = block[0];
  out.block_columns = block[1];
}

GroupQuantization fp8(const QuantizationConfig& config, const JsonNode& fields) {
  GroupQuantization out{.method = Method::fp8};
  take_block(config, fields, "weight_block_size", out);
  return out;
}

// NVIDIA's Model Optimizer. Its FP8 and NVFP4 algorithms differ in how they quantize activations. The shape
// of the scales shows which weights share them. A model with NVFP4 may also have weights in FP8, and
// MIXED_PRECISION lists them; their tensors show the same. Without an algorithm, only the cache is quantized.
GroupQuantization modelopt(const JsonNode& fields) {
  const std::string algorithm = lower_case(fields.string_or("quant_algo", ""));
  const bool may_have_nvfp4 = algorithm.find("nvfp4") != algorithm.npos || algorithm == "mixed_precision";
  return {.method = may_have_nvfp4 ? Method::nvfp4 : Method::fp8};
}

// Only nf4, with or without double quantization.
GroupQuantization bitsandbytes(const QuantizationConfig& config, const JsonNode& fields) {
  if (!fields.has("bnb_4bit_quant_type"))
    refuse_field(config, "bnb_4bit_quant_type", "nf4", "fp4");  // default
  return {.method = Method::bitsandbytes};
}

GroupQuantization compressed_tensors(const QuantizationConfig& config, const JsonNode& fields) {
  if (!fields.has("format")) refuse_field(config, "format", "pack-quantized or similar", "none");
  GroupQuantization out{.method = Method::compressed_tensors, .bits = 0};
  bool has_several = false;
  const std::optional<JsonNode> groups = fields.find("config_groups");
  if (!groups) return out;
  groups->for_each_member([&](const std::string& name, const nlohmann::json& value) {
    const JsonNode group(value, config.file + ": config_groups." + name);
    if (!group.has("weights")) return;  // quantizes activations only
    const JsonNode weights = group.at("weights");
    const auto bits = static_cast<unsigned>(weights.at("num_bits").size());
    if (weights.string_or("type", "int") == "float") {
      const std::string format = group.string_or("format", fields.string_or("format", ""));
      const std::size_t usual = format.starts_with("mxfp4") ? 32 : 16;
      const std::size_t size = weights.size_or("group_size", usual);
      if (bits == 4 && size != usual)
        refuse_field(config, "group_size", fmt::format("{} for 4-bit floats", usual), std::to_string(size));
      return take_block(config, weights, "block_structure", out);
    }
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
  // GPT-2 stores projections transposed, but these tools do not.
  require<ConfigError>(
      config->model_type != "gpt2",
      "{}: quantization_config: {} weights of GPT-2 cannot be read, expected unquantized ones; "
      "use the original model with --weights int4 or int8",
      config->file, printable(config->method));
  check_quantization_fields(*config);
  const JsonNode fields(config->fields, config->file);
  if (config->method == "awq") return GroupQuantization{.method = Method::awq, .bits = bits_of(fields)};
  if (config->method == "gptq") return gptq(fields);
  if (config->method == "compressed-tensors") return compressed_tensors(*config, fields);
  if (config->method == "modelopt") return modelopt(fields);
  if (config->method == "mxfp4") return GroupQuantization{.method = Method::mxfp4};
  if (config->method == "bitsandbytes") return bitsandbytes(*config, fields);
  return fp8(*config, fields);
}

}  // namespace tp
