#include "model/config/gguf_config.h"

#include "model/config/architectures.h"
#include "model/config/config_limits.h"
#include "model/files/json_node.h"
#include "model/files/json_text.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

using nlohmann::json;

// The tokens that end a text, a turn and a message. Skips ids outside the vocabulary.
json eos_token_ids(const GgufMetadata& metadata, std::size_t rows) {
  const std::size_t tokens =
      metadata.has("tokenizer.ggml.tokens") ? metadata.texts("tokenizer.ggml.tokens").size() : rows;
  json ids = json::array();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (!metadata.has(key)) continue;
    const double number = metadata.number(key);
    if (number < 0 || number >= static_cast<double>(std::min(tokens, rows))) continue;
    const std::uint64_t id = metadata.whole(key);
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

// The torch_dtype that represents most elements exactly.
std::string torch_dtype(const GgufFiles& files) {
  std::map<std::string, std::size_t> elements;
  for (const auto& [name, entry] : files.tensors()) {
    const std::optional<DType> plain = plain_type(entry.tensor.type);
    const char* const type = plain == DType::f32 ? "float32" : plain == DType::f16 ? "float16" : "bfloat16";
    elements[type] +=
        entry.tensor.bytes.size() / entry.tensor.type.block_bytes * entry.tensor.type.block_elements;
  }
  const auto commonest = std::max_element(elements.begin(), elements.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
  return commonest == elements.end() ? "float32" : commonest->first;
}

// Models with experts in all layers may lack feed_forward_length. Layers that share keys and values may have
// wider MLPs than the first layer. Layers without an MLP have 0 in a list.
std::uint64_t intermediate_size(const ModelMetadata& model) {
  const char* const key = "feed_forward_length";
  if (!model.has(key)) return model.whole("expert_feed_forward_length");
  const std::vector<std::uint64_t> all = model.wholes(key);
  const std::uint64_t max = std::ranges::max(all);
  if (std::ranges::all_of(all, [&](std::uint64_t size) { return size == 0 || size == max; })) return max;
  const bool may_differ = model.whole_or("attention.shared_kv_layers", 0) != 0;
  return may_differ ? all.front() : model.whole(key);
}

// The number of tokens. A tied embedding may have the name of the LM head. A drafter may lack both tables,
// and its head may lack tokens, but the file has its target's tokens.
std::size_t vocab_size_in(const ModelMetadata& model, const Family& family) {
  const GgufFiles& files = model.files();
  const bool is_drafter = family.kind == ModelKind::drafter;
  const GgufFiles::Entry* table = files.find("token_embd.weight");
  if (table == nullptr && is_drafter) return files.metadata().texts("tokenizer.ggml.tokens").size();
  if (table == nullptr) table = files.find("output.weight");
  if (table == nullptr || table->tensor.shape.size() != 2) {
    throw_error<CheckpointError>(
        "{}: there is no matrix token_embd.weight, nor output.weight; the file holds no language model",
        files.name());
  }
  return table->tensor.shape.front();
}

// Fields that most families have, under Llama's names.
json common_config(const ModelMetadata& model, const Family& family) {
  const std::size_t vocab_size = vocab_size_in(model, family);
  const bool has_both = model.has_tensor("token_embd.weight") && model.has_tensor("output.weight");
  return {
      {"hidden_size", model.whole("embedding_length")},
      {"intermediate_size", intermediate_size(model)},
      {"num_hidden_layers", model.whole("block_count")},
      {"num_attention_heads", model.heads()},
      {"num_key_value_heads", model.kv_heads()},
      {"head_dim", model.head_dim()},
      {"vocab_size", vocab_size},
      {"max_position_embeddings", model.whole("context_length")},
      {"rms_norm_eps", model.number_or("attention.layer_norm_rms_epsilon", 1e-6)},
      {"attention_bias", model.has_tensor("blk.0.attn_q.bias") || model.has_tensor("blk.0.attn_qkv.bias")},
      {"attention_out_bias", model.has_tensor("blk.0.attn_output.bias")},
      {"mlp_bias", model.has_tensor("blk.0.ffn_up.bias")},
      {"tie_word_embeddings", !has_both && family.kind != ModelKind::drafter},
      {"hidden_act", "silu"},
      {"torch_dtype", torch_dtype(model.files())},
      {"eos_token_id", eos_token_ids(model.files().metadata(), vocab_size)}};
}

json carried_config(const ModelMetadata& model) {
  const std::string where = fmt::format("{}, {}.config", model.files().name(), model.architecture());
  json config = parse_json_file(std::string(model.carried_config()), where);
  require<CheckpointError>(config.is_object(), "{}: expected an object, found {}; convert the model again",
                           where, config.type_name());
  return config;
}

json config_of_numbers(const ModelMetadata& model, const Family& family) {
  // Families list the layers before the config's limits are checked.
  require<ConfigError>(model.whole("block_count") <= kMaxParts,
                       "{}: block_count must be at most {}, found {}; convert the model again",
                       model.files().name(), kMaxParts, model.whole("block_count"));
  json config = common_config(model, family);
  config.update(gguf_rope(model));
  return config;
}

// llama.cpp lets a token see all later tokens through a window, unlike transformers. Throws ConfigError.
void require_known_windows(const ModelMetadata& model, const json& config) {
  const auto window = config.find("sliding_window");
  const bool has_windows = window != config.end() && window->is_number() && *window != 0;
  require<ConfigError>(config["is_causal"] == true || !has_windows,
                       "{}: attention.causal is false, expected layers without a sliding window, found "
                       "attention.sliding_window {}; use the model's original checkpoint",
                       model.files().name(), has_windows ? window->dump() : "");
}

}  // namespace

json gguf_config(const GgufFiles& files) {
  const ModelMetadata model(files);
  const Family& family = family_of(model);
  const bool is_carried = !model.carried_config().empty();
  json config = is_carried ? carried_config(model) : config_of_numbers(model, family);
  config["architectures"] = {family.architecture};
  const bool is_decoder = family.kind == ModelKind::decoder || family.has_causal_body;
  config["is_causal"] = model.boolean_or("attention.causal", is_decoder);
  if (family.gguf.config != nullptr) config.update(family.gguf.config(model), /*merge_objects=*/true);
  if (!is_carried) require_known_rope(model);
  if (is_decoder) require_known_windows(model, config);  // an encoder's windows have two sides
  // Texts of a file may be any bytes, but JSON is UTF-8.
  return json::parse(json_text(config));
}

}  // namespace tp
