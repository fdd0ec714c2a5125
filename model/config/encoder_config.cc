#include "model/config/encoder_config.h"

#include "model/config/checkpoint_config.h"
#include "tp/internal/require.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Reads a classifier's labels: id2label, or num_labels labels with generated names.
void read_labels(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  constexpr std::size_t kMostLabels = std::size_t{1} << 20;
  const std::optional<JsonNode> names = fields.find("id2label");
  if (!names) {
    const std::size_t labels = fields.size_or("num_labels", 2);
    require<ConfigError>(labels <= kMostLabels,
                         "{}: num_labels must be at most {}, found {}; check config.json", where, kMostLabels,
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
  fields.update({"classifier_pooling"}, config.encoder.classifier_pooling);
  fields.update({"classifier_activation"}, config.encoder.classifier_activation);
  read_labels(fields, where, config);
}

void read_mask_token(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
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
