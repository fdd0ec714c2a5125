#include "model/weights/quantized/quantization_config.h"

#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>

namespace tp {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "quantization_config";

bool is_object_with(const nlohmann::json& value, const char* name) {
  return value.is_object() && value.contains(name);
}

// The name of the method. If it is missing, other fields may show which tool wrote them.
std::string method_of(const JsonNode& fields) {
  if (fields.has("quant_method")) return lower_case(fields.at("quant_method").string());
  if (fields.boolean_or("load_in_4bit", false) || fields.boolean_or("load_in_8bit", false))
    return "bitsandbytes";
  if (fields.value().contains("quant_algo")) return "modelopt";
  require<ConfigError>(
      !(fields.has("bits") && fields.has("group_size")),
      "{}: {}: found bits and group_size without a quant_method, as in the format of MLX, which this program "
      "cannot read; {}",
      fields.file(), kField, kQuantizationAdvice);
  return fields.at("quant_method").string();  // throws
}

// Reads the files that earlier tools wrote next to config.json. Each tool has one method.
std::optional<QuantizationConfig> find_beside(const fs::path& folder) {
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"hf_quant_config.json", "modelopt"}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};
  for (const auto& [name, method] : kFiles) {
    const fs::path file = folder / name;
    if (!has_file(file)) continue;
    nlohmann::json document = read_json_file(file);
    const JsonNode json(document, file);
    if (json.has("quantization")) document = nlohmann::json(json.at("quantization").value());
    const JsonNode fields(document, file);
    return QuantizationConfig{.fields = document,
                              .file = file.string(),
                              .method = lower_case(fields.string_or("quant_method", method))};
  }
  return std::nullopt;
}

// MLX first stored these fields only as "quantization", later under both names. ModelOpt's fields may be
// those of its own file, and early compressed-tensors models have a different name.
nlohmann::json fields_in(const nlohmann::json& config) {
  for (const char* const name : {kField, "compression_config"}) {
    if (!is_object_with(config, name) || config[name].is_null()) continue;
    const nlohmann::json& fields = config[name];
    return is_object_with(fields, "quantization") && fields["quantization"].is_object()
               ? fields["quantization"]
               : fields;
  }
  if (is_object_with(config, "quantization") && is_object_with(config["quantization"], "bits"))
    return config["quantization"];
  return nullptr;
}

// Whether a description of layers with different algorithms names no layers.
bool lacks_layers(const QuantizationConfig& config) {
  const JsonNode fields(config.fields, config.file);
  return config.method == "modelopt" && !fields.has("quantized_layers") && !fields.has("config_groups") &&
         fields.has("quant_algo") && lower_case(fields.at("quant_algo").string()) == "mixed_precision";
}

bool has_dtype(const JsonNode& config) { return config.has("torch_dtype") || config.has("dtype"); }

}  // namespace

std::optional<QuantizationConfig> find_quantization_config(const fs::path& model) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(model, ignored);
  const fs::path file = is_folder ? model / "config.json" : model;
  if (!has_file(file)) return std::nullopt;
  const nlohmann::json document = read_json_file(file);
  const JsonNode config(document, file);
  nlohmann::json fields = fields_in(document);
  // Multimodal models describe their language model in text_config.
  if (fields.is_null() && config.has("text_config")) fields = fields_in(document["text_config"]);
  std::optional<QuantizationConfig> found;
  if (fields.is_null())
    found = find_beside(file.parent_path());
  else
    found = {.fields = fields, .file = file.string(), .method = method_of(JsonNode(fields, file))};
  if (!found) return found;
  if (lacks_layers(*found)) {
    // ModelOpt lists the layers of a mixed model in its own file at least.
    if (const auto beside = find_beside(file.parent_path()); beside && !lacks_layers(*beside)) found = beside;
  }
  found->model_type = config.string_or("model_type", "");
  found->expert_dtype = lower_case(config.string_or("expert_dtype", ""));
  found->has_dtype = has_dtype(config) || (config.has("text_config") && has_dtype(config.at("text_config")));
  return found;
}

}  // namespace tp
