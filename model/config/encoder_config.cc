#include "model/config/encoder_config.h"

#include "model/config/checkpoint_config.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Reads a classifier's labels: id2label, or num_labels labels with generated names.
void read_labels(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMaxLabels = std::size_t{1} << 20;
  const std::optional<JsonNode> names = fields.find("id2label");
  if (!names) {
    const std::size_t labels = fields.size_or("num_labels", 2);
    require<ConfigError>(labels <= kMaxLabels,
                         "{}: num_labels must be at most {}, found {}; check config.json", where, kMaxLabels,
                         labels);
    for (std::size_t i = 0; i < labels; ++i) config.labels.push_back("LABEL_" + std::to_string(i));
    return;
  }
  for (std::size_t i = 0; i < names->value().size(); ++i)
    config.labels.push_back(names->at(std::to_string(i)).string());
}

// Reads Longformer's window sizes: one number for all layers, or a list.
void read_window_of_layers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  const std::optional<JsonNode> window = fields.find("attention_window");
  if (!window) return;
  if (window->is_array())
    config.encoder.attention_window = fields.list_or_empty("attention_window", &JsonNode::size);
  else
    config.encoder.attention_window.assign(config.num_hidden_layers, window->size());
  require<ConfigError>(config.encoder.attention_window.size() == config.num_hidden_layers,
                       "{}: attention_window must be a number, or have an entry for every layer, expected {} "
                       "(num_hidden_layers), found {}",
                       where, config.num_hidden_layers, config.encoder.attention_window.size());
  config.encoder.attention_dilation = fields.list_or_empty("attention_dilation", &JsonNode::size);
  require<ConfigError>(
      config.encoder.attention_dilation.empty() ||
          config.encoder.attention_dilation.size() == config.num_hidden_layers,
      "{}: attention_dilation must have an entry for every layer, expected {} (num_hidden_layers), found {}",
      where, config.num_hidden_layers, config.encoder.attention_dilation.size());
}

// Reads the fields that only Nomic's config has.
void read_nomic(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update_count({"moe_every_n_layers"}, config.encoder.moe_every_n_layers);
  if (fields.has("rotary_scaling_factor"))
    fields.update_size({"max_trained_positions"}, config.encoder.max_trained_positions);
  const bool first = fields.boolean_or("mlp_fc1_bias", true);
  const bool second = fields.boolean_or("mlp_fc2_bias", first);
  require<ConfigError>(first == second,
                       "{}: mlp_fc2_bias must equal mlp_fc1_bias, {}, found {}; use another model", where,
                       first, second);
}

// Reads the tokens whose logits are a classifier.
void read_answers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  const std::optional<JsonNode> tokens = fields.find("classifier_token_ids");
  if (!tokens) return;
  config.encoder.classifier_token_ids = tokens->token_ids();
  fields.update_size({"classifier_rows"}, config.encoder.classifier_rows);
  const std::size_t rows =
      config.encoder.classifier_rows == 0 ? config.vocab_size : config.encoder.classifier_rows;
  const bool are_two = config.encoder.classifier_token_ids.size() == 2;
  require<ConfigError>(
      are_two &&
          std::ranges::all_of(config.encoder.classifier_token_ids,
                              [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < rows; }),
      "{}: classifier_token_ids must be two ids below {}, for no and yes, found {}; check config.json", where,
      rows, fmt::join(config.encoder.classifier_token_ids, ", "));
}

// Reads the prompt in which a classifier judges two texts.
void read_pair_template(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update({"pair_template"}, config.pair_template);
  const bool has_both = config.pair_template.find("{query}") != std::string::npos &&
                        config.pair_template.find("{document}") != std::string::npos;
  require<ConfigError>(
      config.pair_template.empty() || has_both,
      "{}: the template of a reranker must contain {{query}} and {{document}}, found \"{}\"; "
      "use another model",
      where, printable(config.pair_template));
}

// Reads the adapters of a checkpoint that stores them with its weights.
void read_adapters(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  EncoderConfig& encoder = config.encoder;
  encoder.lora_adaptations = fields.list_or_empty("lora_adaptations", &JsonNode::string);
  if (encoder.lora_adaptations.empty()) return;
  encoder.lora_rank = fields.at("lora_rank").size();
  encoder.lora_alpha = fields.at("lora_alpha").number();
  encoder.lora_task = fields.string_or("lora_task", "");
  const bool is_known =
      encoder.lora_task.empty() ||
      std::ranges::find(encoder.lora_adaptations, encoder.lora_task) != encoder.lora_adaptations.end();
  require<ConfigError>(
      is_known,
      "{}: the model has no adapter for the task \"{}\", expected one of {}; name another task, or none",
      where, encoder.lora_task, fmt::join(encoder.lora_adaptations, ", "));
  if (const auto instructions = fields.find("task_instructions"); instructions && !encoder.lora_task.empty())
    config.task_instruction = instructions->string_or(encoder.lora_task, "");
}

}  // namespace

void read_encoder(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update_count({"type_vocab_size"}, config.type_vocab_size);
  if (fields.has("pad_token_id") && fields.number_or("pad_token_id", -1) >= 0)
    config.pad_token_id = static_cast<TokenId>(fields.count_or("pad_token_id", 0));
  fields.update_count({"num_hidden_groups"}, config.encoder.num_hidden_groups);
  fields.update_count({"global_attn_every_n_layers"}, config.encoder.global_attn_every_n_layers);
  fields.update_count({"relative_attention_num_buckets"}, config.encoder.relative_attention_num_buckets);
  fields.update_size({"relative_attention_max_distance"}, config.encoder.relative_attention_max_distance);
  read_window_of_layers(fields, where, config);
  config.encoder.block_sparse = fields.string_or("attention_type", "original_full") == "block_sparse";
  fields.update_size({"block_size"}, config.encoder.block_size);
  fields.update_count({"num_random_blocks"}, config.encoder.num_random_blocks);
  fields.update({"classifier_pooling", "clf_pooling"}, config.encoder.classifier_pooling);
  fields.update({"classifier_activation"}, config.encoder.classifier_activation);
  fields.update_size({"max_length"}, config.encoder.max_length);
  fields.update_size({"projector_dim"}, config.encoder.projector_dim);
  config.matryoshka_dimensions = fields.list_or_empty("matryoshka_dimensions", &JsonNode::size);
  read_nomic(fields, where, config);
  read_adapters(fields, where, config);
  read_answers(fields, where, config);
  read_pair_template(fields, where, config);
  read_labels(fields, where, config);
}

void read_mask_or_canvas(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  if (config.canvas_length != 0) {
    constexpr std::size_t kMaxTokens = 65536;  // as in a step, which computes a whole canvas
    fields.update_size({"canvas_length"}, config.canvas_length);
    require<ConfigError>(config.canvas_length <= kMaxTokens,
                         "{}: canvas_length must be at most {}, found {}; check config.json", where,
                         kMaxTokens, config.canvas_length);
    return;
  }
  if (fields.has("mask_token_id")) {
    const std::size_t id = fields.at("mask_token_id").count();
    config.mask_token_id = std::in_range<TokenId>(id) ? static_cast<TokenId>(id) : -1;
  }
  require<ConfigError>(
      config.mask_token_id >= 0 && static_cast<std::size_t>(config.mask_token_id) < config.vocab_size,
      "{}: mask_token_id must be a token of the vocabulary, expected 0 to {}, found {}; check config.json",
      where, config.vocab_size - 1,
      fields.has("mask_token_id") ? fields.at("mask_token_id").value().dump()
                                  : fmt::format("none, and the family's {}", config.mask_token_id));
}

}  // namespace tp
