#include "model/weights/checkpoint/group_quantization.h"

#include "model/weights/checkpoint/json_node.h"
#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kAdvice =
    "take the model quantized in another way, or the original one with --weights int4 or int8";

// Of a field of quantization_config: what, expected, found, what to do.
[[noreturn]] void refuse(const std::string& file, std::string_view field, std::string_view expected,
                         const std::string& found) {
  throw_error<ConfigError>("{}: quantization_config: {} must be {}, found {}; {}", file, field, expected,
                           printable(found), kAdvice);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void require_four_bits(const JsonNode& fields, std::string_view field, const std::string& file) {
  const std::size_t bits = fields.at(field).size();
  if (bits != 4) refuse(file, field, "4", std::to_string(bits));
}

GroupQuantization awq(const JsonNode& fields, const std::string& file) {
  require_four_bits(fields, fields.name_of({"bits", "w_bit"}), file);
  const std::string version = lower(fields.string_or("version", "gemm"));
  if (version != "gemm") refuse(file, "version", "gemm", version);
  return {GroupQuantization::Method::awq};
}

GroupQuantization gptq(const JsonNode& fields, const std::string& file) {
  require_four_bits(fields, "bits", file);
  const std::string format = lower(fields.string_or("checkpoint_format", "gptq"));
  if (format != "gptq" && format != "gptq_v2") refuse(file, "checkpoint_format", "gptq or gptq_v2", format);
  if (fields.boolean_or("is_marlin_format", false)) refuse(file, "is_marlin_format", "false", "true");
  return {GroupQuantization::Method::gptq, format == "gptq"};
}

GroupQuantization compressed_tensors(const JsonNode& fields, const std::string& file) {
  const std::string format = fields.string_or("format", "none");
  if (format != "pack-quantized") refuse(file, "format", "pack-quantized", format);
  fields.at("config_groups").for_each_member([&](const std::string& name, const nlohmann::json& value) {
    const JsonNode weights = JsonNode(value, file + ": config_groups." + name).at("weights");
    require_four_bits(weights, "num_bits", file);
    const std::string type = weights.string_or("type", "int");
    if (type != "int") refuse(file, "type", "int", type);
  });
  return {GroupQuantization::Method::pack_quantized};
}

}  // namespace

std::string_view name_of(GroupQuantization::Method method) {
  switch (method) {
    case GroupQuantization::Method::awq:
      return "AWQ";
    case GroupQuantization::Method::gptq:
      return "GPTQ";
    default:
      return "compressed-tensors";
  }
}

std::optional<GroupQuantization> find_group_quantization(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const nlohmann::json document = read_json_file(path);
  const JsonNode config(document, path);
  const std::optional<JsonNode> fields = config.find("quantization_config");
  if (!fields) return std::nullopt;
  const std::string file = path.string();
  const std::string method = fields->at("quant_method").string();
  if (method == "fp8") return std::nullopt;
  // Its projections are stored with rows and columns exchanged, but not by these tools.
  require<ConfigError>(
      config.string_or("model_type", "") != "gpt2",
      "{}: quantization_config: {} weights of GPT-2 cannot be read, expected unquantized ones; "
      "take the original model with --weights int4 or int8",
      file, printable(method));
  if (method == "awq") return awq(*fields, file);
  if (method == "gptq") return gptq(*fields, file);
  if (method == "compressed-tensors") return compressed_tensors(*fields, file);
  refuse(file, "quant_method", "awq, gptq, compressed-tensors or fp8", method);
}

}  // namespace tp
