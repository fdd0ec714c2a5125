#include "model/weights/quantized/quantized_layers.h"

#include "model/files/json_node.h"
#include "model/files/mapped_file.h"
#include "model/weights/quantized/quantization_config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Method = GroupQuantization::Method;
using Layout = StoredGroups::Layout;

// "model.layers.3.mlp.up_proj"
bool is_in_block(const std::string& layer) {
  for (std::size_t dot = layer.find('.'); dot != std::string::npos; dot = layer.find('.', dot + 1)) {
    const std::size_t end = layer.find_first_not_of("0123456789", dot + 1);
    if (end != std::string::npos && end > dot + 1 && layer[end] == '.') return true;
  }
  return false;
}

// Negative sizes mean all columns.
std::size_t group_size(const JsonNode& fields, const std::string& name) {
  const std::optional<JsonNode> field = fields.find(name);
  if (!field) return 128;
  const nlohmann::json& value = field->value();
  const bool is_negative =
      value.is_number_integer() && !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  return is_negative ? 0 : field->count();
}

std::vector<std::string> names(const JsonNode& fields, std::initializer_list<const char*> of_lists) {
  std::vector<std::string> all;
  for (const char* list : of_lists) {
    for (const std::string& name : fields.list_or_empty(list, &JsonNode::string)) all.push_back(name);
  }
  return all;
}

LayerPatterns patterns(const JsonNode& fields, std::initializer_list<const char*> of_lists) {
  return {names(fields, of_lists), fields.file()};
}

// The names of GPTQModel's rules. The first rule that matches a layer counts, but nlohmann::json sorts
// members.
std::vector<std::string> rules_in_order(const JsonNode& fields) {
  std::vector<std::string> rules;
  const std::optional<JsonNode> all = fields.find("dynamic");
  if (!all) return rules;
  all->for_each_member([&](const std::string& rule, const nlohmann::json&) { rules.push_back(rule); });
  const MappedFile file(fields.file());
  const auto* const text = reinterpret_cast<const char*>(file.bytes().data());
  const auto document = nlohmann::ordered_json::parse(text, text + file.bytes().size(), nullptr, false);
  for (const char* const place : {"", "/quantization_config", "/text_config/quantization_config"}) {
    const nlohmann::ordered_json::json_pointer list(std::string(place) + "/dynamic");
    if (!document.is_object() || !document.contains(list) || !document[list].is_object()) continue;
    const nlohmann::ordered_json& members = document[list];
    std::ranges::sort(rules, {}, [&](const std::string& rule) {
      return std::distance(members.begin(), members.find(rule));
    });
    break;
  }
  return rules;
}

// GPTQModel names lists of modules that are quantized one after the other. AutoRound names one list.
std::vector<std::string> modules_in_blocks(const JsonNode& fields) {
  std::vector<std::string> all;
  const std::optional<JsonNode> lists = fields.find("modules_in_block_to_quantize");
  if (!lists) return all;
  for (const JsonNode& list : lists->elements()) {
    if (!list.is_array()) all.push_back(list.string());
    if (!list.is_array()) continue;
    for (const JsonNode& name : list.elements()) all.push_back(name.string());
  }
  return all;
}

void set_groups(const JsonNode& fields, QuantizedLayers& layers) {
  const std::string bits = fields.name_of({"bits", "w_bit"});
  const std::string size = fields.name_of({"group_size", "q_group_size"});
  if (fields.has(bits)) layers.bits = static_cast<unsigned>(fields.at(bits).size());
  if (fields.has(size)) layers.columns = group_size(fields, size);
  if (fields.has("desc_act"))
    layers.act_order = fields.at("desc_act").boolean() && !fields.boolean_or("static_groups", false);
}

// AWQ and GPTQ. Rules that begin with "-:" leave layers out, and others change the groups of layers.
std::vector<QuantizedLayers> integer_layers(const JsonNode& fields) {
  std::vector<std::string> exempt = names(fields, {"modules_to_not_convert"});
  std::vector<std::string> in_no_rule = exempt;
  std::vector<std::string> targets = modules_in_blocks(fields);
  const bool with_head = fields.boolean_or("lm_head", false);
  if (with_head && !targets.empty()) targets.emplace_back("lm_head");
  const std::vector<std::string> rules = rules_in_order(fields);
  const auto expression_of = [](const std::string& rule) {
    const bool has_sign = rule.starts_with("-:") || rule.starts_with("+:");
    return "re:" + (has_sign ? rule.substr(2) : rule);
  };
  for (const std::string& rule : rules) in_no_rule.push_back(expression_of(rule));
  QuantizedLayers others{.targets = {targets, fields.file()},
                         .exempt = {in_no_rule, fields.file()},
                         .with_head = with_head,
                         .columns = 128,
                         .has_zero_points = true};
  set_groups(fields, others);
  std::vector<QuantizedLayers> all = {others};
  // Rules in a row with the same changes make one entry, because a file may have a rule for each layer.
  for (auto rule = rules.begin(); rule != rules.end();) {
    if (rule->starts_with("-:")) {
      exempt.push_back(expression_of(*rule++));
      continue;
    }
    const JsonNode changes = fields.at("dynamic").at(*rule);
    targets.clear();
    while (rule != rules.end() && !rule->starts_with("-:") &&
           fields.at("dynamic").at(*rule).value() == changes.value())
      targets.push_back(expression_of(*rule++));
    all.push_back(others);
    all.back().targets = {targets, fields.file()};
    all.back().exempt = {exempt, fields.file()};
    set_groups(changes, all.back());
  }
  return all;
}

// FP8 with one scale per tensor or per block.
QuantizedLayers fp8_layers(const JsonNode& fields, const std::string& method) {
  QuantizedLayers layers{.exempt = patterns(fields, {"modules_to_not_convert", "ignored_layers"}),
                         .is_e4m3 = true,
                         .bits = 8,
                         .rows = method == "fbgemm_fp8" ? std::size_t{1} : std::size_t{0}};
  const std::vector<std::size_t> block = fields.list_or_empty("weight_block_size", &JsonNode::size);
  if (block.empty()) return layers;
  layers.rows = block.front();
  layers.columns = block.back();
  return layers;
}

// DeepSeek-V4's routed experts, beside other layers in FP8.
QuantizedLayers fp4_experts(const std::string& file) {
  return {.targets = {{R"(re:.*\.ffn\.experts\.)"}, file}, .columns = 32, .layout = Layout::mxfp4};
}

QuantizedLayers layers_of_algorithm(const std::string& algorithm) {
  QuantizedLayers layers{.is_e4m3 = true, .bits = 8};
  if (algorithm == "fp8") layers.rows = 0;
  if (algorithm == "fp8_pb_wo") layers.rows = layers.columns = 128;
  if (algorithm == "mxfp8") layers.columns = 32;
  if (algorithm.find("nvfp4") != algorithm.npos) {
    layers.is_e4m3 = false;
    layers.bits = 4;
    layers.layout = Layout::nvfp4;
  }
  return layers;
}

// MIXED_PRECISION lists layers with their algorithms.
std::vector<QuantizedLayers> listed_layers(const JsonNode& fields) {
  std::map<std::string, std::vector<std::string>> layers_of;
  fields.at("quantized_layers").for_each_member([&](const std::string& layer, const nlohmann::json& value) {
    const JsonNode settings(value, fields.file() + ": quantized_layers." + layer);
    layers_of[lower_case(settings.at("quant_algo").string())].push_back(layer);
  });
  std::vector<QuantizedLayers> all;
  for (const auto& [algorithm, layers] : layers_of) {
    all.push_back(layers_of_algorithm(algorithm));
    all.back().targets = {layers, fields.file()};
  }
  return all;
}

// A member of config_groups. `fields`: quantization_config.
QuantizedLayers layers_of_group(const JsonNode& fields, const JsonNode& group) {
  const JsonNode weights = group.at("weights");
  QuantizedLayers layers{.targets = patterns(group, {"targets"}),
                         .is_e4m3 = weights.string_or("type", "int") == "float",
                         .bits = static_cast<unsigned>(weights.at("num_bits").size()),
                         .has_zero_points = !weights.boolean_or("symmetric", true)};
  if (layers.is_e4m3 && layers.bits == 4) {
    layers.is_e4m3 = false;
    const std::string format = group.string_or("format", fields.string_or("format", ""));
    const bool is_mxfp4 = format.starts_with("mxfp4");
    layers.layout = is_mxfp4 ? Layout::mxfp4 : Layout::nvfp4;
    if (is_mxfp4) layers.columns = 32;
    return layers;
  }
  const std::string strategy = weights.string_or("strategy", "channel");
  const std::vector<std::size_t> block = weights.list_or_empty("block_structure", &JsonNode::size);
  if (strategy == "tensor") layers.rows = 0;
  if (strategy == "group") layers.columns = group_size(weights, "group_size");
  if (strategy == "block" && block.size() == 2) {
    layers.rows = block.front();
    layers.columns = block.back();
  }
  return layers;
}

std::vector<QuantizedLayers> all_groups(const JsonNode& fields) {
  std::vector<QuantizedLayers> all;
  const std::optional<JsonNode> groups = fields.find("config_groups");
  if (!groups) return all;
  groups->for_each_member([&](const std::string& name, const nlohmann::json& value) {
    const JsonNode group(value, fields.file() + ": config_groups." + name);
    if (!group.has("weights")) return;
    all.push_back(layers_of_group(fields, group));
    all.back().exempt = patterns(fields, {"ignore"});
  });
  return all;
}

std::vector<QuantizedLayers> modelopt_layers(const JsonNode& fields) {
  const std::string algorithm = lower_case(fields.string_or("quant_algo", ""));
  if (algorithm.empty()) return {};  // only the cache is quantized
  std::vector<QuantizedLayers> all;
  if (algorithm != "mixed_precision") {
    all = {layers_of_algorithm(algorithm)};
  } else if (fields.has("quantized_layers")) {
    all = listed_layers(fields);
  } else {
    all = all_groups(fields);
    for (QuantizedLayers& layers : all) layers.rows = layers.is_e4m3 ? 0 : 1;
  }
  require<ConfigError>(
      !all.empty(),
      "{}: quantization_config: expected quantized_layers or config_groups with the layers of "
      "MIXED_PRECISION, found none; inspect the model's folder with its weights or "
      "hf_quant_config.json instead",
      fields.file());
  for (QuantizedLayers& layers : all) {
    layers.exempt = patterns(fields, {"ignore", "exclude_modules"});
    layers.with_head = algorithm == "mixed_precision";
  }
  return all;
}

std::vector<QuantizedLayers> layers_of(const QuantizationConfig& config, Method method) {
  const JsonNode fields(config.fields, config.file);
  switch (method) {
    case Method::awq:
    case Method::gptq:
      return integer_layers(fields);
    case Method::compressed_tensors:
      return all_groups(fields);
    case Method::mxfp4:
      return {{.targets = {{"experts"}, config.file},
               .exempt = patterns(fields, {"modules_to_not_convert"}),
               .columns = 32,
               .layout = Layout::mxfp4}};
    case Method::bitsandbytes:
      return {{.exempt = patterns(fields, {"llm_int8_skip_modules"}), .columns = 64, .layout = Layout::nf4}};
    default:
      if (config.method == "modelopt") return modelopt_layers(fields);
      if (config.expert_dtype == "fp4") return {fp4_experts(config.file), fp8_layers(fields, config.method)};
      return {fp8_layers(fields, config.method)};
  }
}

}  // namespace

bool QuantizedLayers::include(const std::string& tensor) const {
  const std::string layer = tensor.substr(0, tensor.rfind('.'));
  const bool is_in_model = is_in_block(layer) || (with_head && layer.ends_with("lm_head"));
  return tensor.ends_with(".weight") && is_in_model && (targets.empty() || targets.match(layer)) &&
         !exempt.match(layer);
}

StoredGroups QuantizedLayers::stored(MatrixShape shape) const {
  const std::size_t whole = shape.columns;
  const bool is_divided = columns != 0 && columns < whole;
  StoredGroups weight;
  weight.bits = bits;
  weight.is_e4m3 = is_e4m3;
  weight.shape = shape;
  weight.layout = layout;
  const bool has_f32_scales = is_e4m3 || layout == Layout::nf4;
  weight.groups = {.type = has_f32_scales ? kernels::ScaleType::f32 : kernels::ScaleType::f16,
                   .has_zero_points = has_zero_points,
                   .row_block = rows == 0 ? shape.rows : rows,
                   .column_block = is_divided ? columns : whole,
                   .groups = is_divided ? (whole + columns - 1) / columns : std::size_t{1}};
  if (act_order && is_divided) weight.groups.column_block = 0;
  return weight;
}

std::vector<QuantizedLayers> find_quantized_layers(const std::filesystem::path& model) {
  const std::optional<GroupQuantization> known = find_group_quantization(model);
  if (!known) return {};
  std::vector<QuantizedLayers> all = layers_of(*find_quantization_config(model), known->method);
  for (QuantizedLayers& layers : all) layers.method = known->method;
  return all;
}

}  // namespace tp
