#include "model/weights/quantized/quantized_layers.h"

#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "model/weights/quantized/quantization_config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>

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

// GPTQModel's rules for some layers. Rules that begin with "-:" exclude layers. Other rules change how layers
// are quantized.
std::vector<std::string> left_out_by_rules(const JsonNode& fields) {
  std::vector<std::string> all;
  const std::optional<JsonNode> rules = fields.find("dynamic");
  if (!rules || !rules->value().is_object()) return all;
  rules->for_each_member([&](const std::string& rule, const nlohmann::json&) {
    require<ConfigError>(
        rule.starts_with("-:"),
        "{}: quantization_config: dynamic may only leave layers out (\"-:...\"), found the rule "
        "{}; inspect the model's folder with its weights instead",
        fields.file(), printable(rule));
    all.push_back("re:" + rule.substr(2));
  });
  return all;
}

QuantizedLayers integer_layers(const JsonNode& fields, const std::vector<std::string>& left_out = {}) {
  std::vector<std::string> exempt = names(fields, {"modules_to_not_convert"});
  exempt.insert(exempt.end(), left_out.begin(), left_out.end());
  QuantizedLayers layers{.exempt = {exempt, fields.file()}, .has_zero_points = true};
  layers.bits = static_cast<unsigned>(fields.at(fields.name_of({"bits", "w_bit"})).size());
  layers.columns = group_size(fields, fields.name_of({"group_size", "q_group_size"}));
  return layers;
}

QuantizedLayers gptq_layers(const JsonNode& fields) {
  QuantizedLayers layers = integer_layers(fields, left_out_by_rules(fields));
  layers.act_order = fields.boolean_or("desc_act", false) && !fields.boolean_or("static_groups", false);
  return layers;
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

QuantizedLayers modelopt_layers(const JsonNode& fields, Method method) {
  QuantizedLayers layers{
      .exempt = patterns(fields, {"ignore", "exclude_modules"}), .is_e4m3 = true, .bits = 8};
  const std::string algorithm = lower_case(fields.at("quant_algo").string());
  require<ConfigError>(algorithm != "mixed_precision",
                       "{}: quantization_config: quant_algo must be the same for all layers, found "
                       "MIXED_PRECISION; inspect the model's folder with its weights instead",
                       fields.file());
  if (algorithm == "fp8") layers.rows = 0;
  if (algorithm == "fp8_pb_wo") layers.rows = layers.columns = 128;
  if (algorithm == "mxfp8") layers.columns = 32;
  if (method == Method::nvfp4) {
    layers.is_e4m3 = false;
    layers.bits = 4;
    layers.layout = Layout::nvfp4;
  }
  return layers;
}

// A member of config_groups.
QuantizedLayers layers_of_group(const JsonNode& group) {
  const JsonNode weights = group.at("weights");
  QuantizedLayers layers{.targets = patterns(group, {"targets"}),
                         .is_e4m3 = weights.string_or("type", "int") == "float",
                         .bits = static_cast<unsigned>(weights.at("num_bits").size()),
                         .has_zero_points = !weights.boolean_or("symmetric", true)};
  if (layers.is_e4m3 && layers.bits == 4) {
    layers.is_e4m3 = false;
    layers.layout = Layout::nvfp4;
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

std::vector<QuantizedLayers> all_groups(const JsonNode& fields, const std::string& file) {
  std::vector<QuantizedLayers> all;
  const std::optional<JsonNode> groups = fields.find("config_groups");
  if (!groups) return all;
  groups->for_each_member([&](const std::string& name, const nlohmann::json& value) {
    all.push_back(layers_of_group(JsonNode(value, file + ": config_groups." + name)));
    all.back().exempt = patterns(fields, {"ignore"});
  });
  return all;
}

std::vector<QuantizedLayers> layers_of(const QuantizationConfig& config, Method method) {
  const JsonNode fields(config.fields, config.file);
  switch (method) {
    case Method::awq:
      return {integer_layers(fields)};
    case Method::gptq:
      return {gptq_layers(fields)};
    case Method::compressed_tensors:
      return all_groups(fields, config.file);
    case Method::mxfp4:
      return {{.targets = {{"experts"}, config.file},
               .exempt = patterns(fields, {"modules_to_not_convert"}),
               .columns = 32,
               .layout = Layout::mxfp4}};
    case Method::bitsandbytes:
      return {{.exempt = patterns(fields, {"llm_int8_skip_modules"}), .columns = 64, .layout = Layout::nf4}};
    default:
      return {config.method == "modelopt" ? modelopt_layers(fields, method)
                                          : fp8_layers(fields, config.method)};
  }
}

}  // namespace

bool QuantizedLayers::include(const std::string& tensor) const {
  const std::string layer = tensor.substr(0, tensor.rfind('.'));
  return tensor.ends_with(".weight") && is_in_block(layer) && (targets.empty() || targets.match(layer)) &&
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
