#include "model/sentence_pipeline.h"

#include "model/weights/checkpoint/json_node.h"
#include "model/weights/checkpoint/safetensors_checkpoint.h"
#include "tp/internal/require.h"

#include <cmath>
#include <iterator>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// "sentence_transformers.models.Pooling" -> "Pooling"
std::string class_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Of the modes that Sentence Transformers can concatenate, one.
Pooling read_pooling(const std::filesystem::path& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode fields(document, file);
  std::vector<std::string> modes;
  for (const auto& [name, value] : document.items()) {
    if (name.starts_with("pooling_mode_") && value.is_boolean() && value.get<bool>()) modes.push_back(name);
  }
  if (modes == std::vector<std::string>{"pooling_mode_mean_tokens"}) return Pooling::mean;
  if (modes == std::vector<std::string>{"pooling_mode_cls_token"}) return Pooling::first;
  if (modes == std::vector<std::string>{"pooling_mode_lasttoken"}) return Pooling::last;
  throw_error<CheckpointError>(
      "{}: expected one of pooling_mode_mean_tokens, pooling_mode_cls_token and pooling_mode_lasttoken, "
      "found "
      "{}; give `--pooling` with a folder without modules.json, or use another model",
      file.string(), modes.empty() ? "none" : fmt::format("{}", fmt::join(modes, ", ")));
}

PooledLayerSpec::Activation read_activation(const JsonNode& fields, const std::filesystem::path& file) {
  static const std::map<std::string, PooledLayerSpec::Activation> known = {
      {"Identity", PooledLayerSpec::Activation::none},
      {"Tanh", PooledLayerSpec::Activation::tanh},
      {"ReLU", PooledLayerSpec::Activation::relu},
      {"GELU", PooledLayerSpec::Activation::gelu}};
  const std::string name =
      class_of(fields.string_or("activation_function", "torch.nn.modules.activation.Tanh"));
  const auto found = known.find(name);
  require<CheckpointError>(found != known.end(),
                           "{}: activation_function must be Identity, Tanh, ReLU or GELU, found \"{}\"; use "
                           "another model",
                           file.string(), name);
  return found->second;
}

PooledLayer read_dense(const std::filesystem::path& folder, std::size_t in_features) {
  const std::filesystem::path file = folder / "config.json";
  const nlohmann::json document = read_json_file(file);
  const JsonNode fields(document, file);
  require<CheckpointError>(
      fields.at("in_features").size() == in_features,
      "{}: in_features must be {}, the size of what comes before, found {}; get the files "
      "of one model",
      file.string(), in_features, fields.at("in_features").size());
  const PooledLayerSpec spec{.name = "linear",
                             .out_features = fields.at("out_features").size(),
                             .bias = fields.boolean_or("bias", true),
                             .activation = read_activation(fields, file)};
  const auto source = SafetensorsCheckpoint::open(folder);
  WeightLoader loader(*source, {0, 1}, WeightType::f32, {});
  return {loader, spec, in_features, ""};
}

}  // namespace

SentencePipeline SentencePipeline::load(const std::filesystem::path& folder, std::size_t hidden_size) {
  SentencePipeline pipeline;
  pipeline.size_ = hidden_size;
  const std::filesystem::path file = folder / "modules.json";
  if (!std::filesystem::exists(file)) return pipeline;
  const nlohmann::json document = read_json_file(file);
  for (const JsonNode& module : JsonNode(document, file).elements()) {
    const std::string type = class_of(module.type());
    const std::filesystem::path part = folder / module.at("path").string();
    if (type == "Transformer") continue;
    if (type == "Pooling") {
      pipeline.pooling_ = read_pooling(part / "config.json");
    } else if (type == "Dense") {
      pipeline.layers_.push_back(read_dense(part, pipeline.size_));
      pipeline.size_ = pipeline.layers_.back().out_features();
    } else if (type == "Normalize") {
      pipeline.normalizes_ = true;
    } else {
      module.at("type").fail(fmt::format("{}, which tp-infer does not support", type),
                             "Transformer, Pooling, Dense or Normalize",
                             "use a model that consists of these");
    }
  }
  const std::filesystem::path settings = folder / "config_sentence_transformers.json";
  if (!std::filesystem::exists(settings)) return pipeline;
  const nlohmann::json prompts = read_json_file(settings);
  const JsonNode fields(prompts, settings);
  if (const std::optional<JsonNode> list = fields.find("prompts")) {
    for (const auto& [name, value] : list->value().items()) pipeline.prompts_[name] = list->at(name).string();
  }
  pipeline.default_prompt_ = fields.string_or("default_prompt_name", "");
  return pipeline;
}

const std::string& SentencePipeline::prompt(const std::string& name) const {
  static const std::string none;
  const std::string& wanted = name.empty() ? default_prompt_ : name;
  if (wanted.empty()) return none;
  const auto found = prompts_.find(wanted);
  if (found != prompts_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, text] : prompts_) names.push_back(known);
  throw_error<RequestError>(
      "the model has no prompt \"{}\" (config_sentence_transformers.json), expected {}; give "
      "one of them, or none",
      wanted, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

std::vector<float> SentencePipeline::operator()(std::vector<float> pooled) const {
  for (const PooledLayer& layer : layers_) pooled = layer(pooled);
  return pooled;
}

void normalize(std::vector<float>& vector) {
  double squares = 0.0;
  for (const float element : vector) squares += static_cast<double>(element) * element;
  if (squares == 0.0) return;
  const double inverse = 1.0 / std::sqrt(squares);
  for (float& element : vector) element = static_cast<float>(element * inverse);
}

}  // namespace tp
