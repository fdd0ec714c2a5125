#include "model/layers/sentence_pipeline.h"

#include "model/config/tensor_names.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tp/internal/require.h"

#include <array>
#include <cmath>
#include <iterator>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// "sentence_transformers.models.Pooling" -> "Pooling"
std::string class_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Pooling modes, in the order in which Sentence Transformers concatenates their results. Files written
// by version 5.4 or later name the modes; older files set a flag for each one.
constexpr std::pair<const char*, const char*> kModes[] = {
    {"cls", "pooling_mode_cls_token"},
    {"max", "pooling_mode_max_tokens"},
    {"mean", "pooling_mode_mean_tokens"},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {"weightedmean", "pooling_mode_weightedmean_tokens"},
    {"lasttoken", "pooling_mode_lasttoken"}};

// `pooling_mode`, a mode or a list of modes, overrides the flags. The default is "mean".
std::vector<std::string> pooling_modes(const JsonNode& fields) {
  std::vector<std::string> modes;
  if (const std::optional<JsonNode> given = fields.find("pooling_mode")) {
    if (given->is_string()) return {given->string()};
    modes = fields.list_or_empty("pooling_mode", &JsonNode::string);
  } else {
    for (const auto& [mode, flag] : kModes) {
      if (fields.boolean_or(flag, false)) modes.emplace_back(mode);
    }
  }
  return modes.empty() ? std::vector<std::string>{"mean"} : modes;
}

Pooling read_pooling(const JsonNode& fields, const std::filesystem::path& file) {
  const std::vector<std::string> modes = pooling_modes(fields);
  if (modes == std::vector<std::string>{"mean"}) return Pooling::mean;
  if (modes == std::vector<std::string>{"cls"}) return Pooling::first;
  if (modes == std::vector<std::string>{"lasttoken"}) return Pooling::last;
  throw_error<CheckpointError>(
      "{}: pooling_mode must be mean, cls or lasttoken, found {}; give `--pooling` with a folder without "
      "modules.json, or use another model",
      file.string(), fmt::join(modes, ", "));
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

// Rejects modules that read or write anything except sentence embeddings (possible since version 5.4).
void require_of_sentence(const JsonNode& fields, const std::filesystem::path& file) {
  constexpr const char* kSentence = "sentence_embedding";
  for (const char* name : {"module_input_name", "module_output_name"}) {
    const std::string found = fields.string_or(name, kSentence);
    require<CheckpointError>(found == kSentence, "{}: {} must be {}, found \"{}\"; use another model",
                             file.string(), name, kSentence, found);
  }
}

PooledLayer read_dense(const std::filesystem::path& folder, std::size_t in_features) {
  const std::filesystem::path file = folder / "config.json";
  const nlohmann::json document = read_json_file(file);
  const JsonNode fields(document, file);
  require_of_sentence(fields, file);
  require<CheckpointError>(!fields.boolean_or("use_residual", false),
                           "{}: use_residual must be false, found true; use another model", file.string());
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

// Possible names of the Transformer module's settings file. Older versions named it after the model's family.
constexpr const char* kTransformerFiles[] = {
    "sentence_bert_config.json",      "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json",  "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

// A GGUF file's pooling, numbered like llama.cpp's llama_pooling_type. 0 is none, for models without one, and
// 4 is a reranker's head.
std::optional<Pooling> gguf_pooling(const ModelMetadata& model) {
  const std::uint64_t type = model.whole_or("pooling_type", 0);
  constexpr std::array<std::optional<Pooling>, 5> kTypes = {std::nullopt, Pooling::mean, Pooling::first,
                                                            Pooling::last, std::nullopt};
  require<CheckpointError>(
      type < kTypes.size(),
      "{}: pooling_type must be 1 (mean), 2 (cls), 3 (last), 4 (rank) or 0 (none), found "
      "{}; use another model",
      model.files().name(), type);
  return kTypes[type];
}

}  // namespace

SentencePipeline SentencePipeline::load(const std::filesystem::path& folder, std::size_t hidden_size) {
  SentencePipeline pipeline;
  pipeline.size_ = hidden_size;
  const std::filesystem::path file = folder / "modules.json";
  if (!has_file(file)) {
    if (const std::optional<std::filesystem::path> gguf = find_gguf(folder)) pipeline.read_gguf(*gguf);
    return pipeline;
  }
  const nlohmann::json document = read_json_file(file);
  for (const JsonNode& module : JsonNode(document, file).elements()) pipeline.add_module(module, folder);
  pipeline.read_prompts(folder / "config_sentence_transformers.json");
  return pipeline;
}

void SentencePipeline::add_module(const JsonNode& module, const std::filesystem::path& folder) {
  const std::string type = class_of(module.type());
  const std::filesystem::path part = folder / module.at("path").string();
  if (type == "Dropout") return;  // used only in training
  if (type == "Transformer") return read_transformer(part);
  if (type == "Pooling") return read_pooling_module(part / "config.json");
  if (type == "Dense") {
    layers_.push_back(read_dense(part, size_));
    size_ = layers_.back().out_features();
  } else if (type == "Normalize") {
    read_normalize(part / "config.json");
  } else {
    module.at("type").fail(fmt::format("{}, which tp-infer does not support", type),
                           "Transformer, Pooling, Dense or Normalize", "use a model that consists of these");
  }
}

// llama.cpp's converter stores the dense layers of EmbeddingGemma under these names. Its programs normalize
// every pooled state.
void SentencePipeline::read_gguf(const std::filesystem::path& file) {
  const GgufFiles files(file);
  pooling_ = gguf_pooling(ModelMetadata(files));
  normalizes_ = pooling_.has_value();
  for (const char* name : {"dense_2", "dense_3"}) {
    const GgufFiles::Entry* const weight = files.find(tensor_names::weight_of(name));
    if (weight == nullptr) continue;
    const auto source = GgufCheckpoint::open(file);
    WeightLoader loader(*source, {0, 1}, WeightType::f32, {});
    layers_.emplace_back(
        loader, PooledLayerSpec{.name = name, .out_features = weight->tensor.shape.front(), .bias = false},
        size_, "");
    size_ = layers_.back().out_features();
  }
}

void SentencePipeline::read_transformer(const std::filesystem::path& folder) {
  for (const char* name : kTransformerFiles) {
    const std::filesystem::path file = folder / name;
    if (!has_file(file)) continue;
    const nlohmann::json document = read_json_file(file);
    const JsonNode fields(document, file);
    max_tokens_ = fields.size_or("max_seq_length", max_tokens_);
    lower_case_ = fields.boolean_or("do_lower_case", lower_case_);
    return;
  }
}

void SentencePipeline::read_pooling_module(const std::filesystem::path& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode fields(document, file);
  pooling_ = read_pooling(fields, file);
  pools_prompts_ = fields.boolean_or("include_prompt", true) || pooling_ == Pooling::last;
}

// Before version 5.4, the Normalize module had no file.
void SentencePipeline::read_normalize(const std::filesystem::path& file) {
  normalizes_ = true;
  if (!has_file(file)) return;
  const nlohmann::json document = read_json_file(file);
  require_of_sentence(JsonNode(document, file), file);
}

void SentencePipeline::read_prompts(const std::filesystem::path& file) {
  if (!has_file(file)) return;
  const nlohmann::json document = read_json_file(file);
  const JsonNode fields(document, file);
  if (const std::optional<JsonNode> list = fields.find("prompts")) {
    for (const auto& [name, value] : list->value().items()) prompts_[name] = list->at(name).string();
  }
  default_prompt_ = fields.string_or("default_prompt_name", "");
}

const std::string& SentencePipeline::prompt(const std::string& name) const {
  static const std::string none;
  const std::string& wanted = name.empty() ? default_prompt_ : name;
  if (wanted.empty()) return none;
  const auto found = prompts_.find(wanted);
  if (found != prompts_.end()) {
    require<RequestError>(pools_prompts_ || found->second.empty(),
                          "cannot put the prompt \"{}\" in front of a text: expected a model whose pooling "
                          "includes prompts, found include_prompt false; use another model",
                          wanted);
    return found->second;
  }
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
