#include "model/config/gguf_config.h"

#include "model/config/architectures.h"
#include "model/weights/checkpoint/gguf_dequantize.h"
#include "model/weights/checkpoint/gguf_model_metadata.h"
#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tp {
namespace {

using nlohmann::json;

// All elements of a small tensor; empty if the file has no tensor of that name.
std::vector<float> values_of(const GgufFiles& files, std::string_view name) {
  const GgufFiles::Entry* const entry = files.find(name);
  if (entry == nullptr) return {};
  const std::vector<std::size_t>& shape = entry->tensor.shape;
  if (shape.size() != 1 || !entry->tensor.type.readable) {
    throw_error<CheckpointError>(
        "{}: {} is {} of type {}, expected a vector of F32; convert the checkpoint to "
        "GGUF again",
        entry->file.name(), name, printable(shape), entry->tensor.type.name);
  }
  std::vector<float> values(shape.front());
  dequantize(entry->tensor.type, entry->file.bytes().data() + entry->tensor.bytes.begin, {0, values.size()},
             values.data());
  return values;
}

// RoPE scaling. Frequency factors that are stored as tensors are Llama 3's scaling, which the metadata do not
// mention, or Phi-3's, which has two sets of them.
json rope_scaling(const ModelMetadata& model) {
  const std::vector<float> factors = values_of(model.files(), "rope_freqs.weight");
  const std::vector<float> short_factors = values_of(model.files(), "rope_factors_short.weight");
  const std::vector<float> long_factors = values_of(model.files(), "rope_factors_long.weight");
  const std::uint64_t original =
      model.whole_or("rope.scaling.original_context_length", model.whole("context_length"));
  if (!factors.empty()) {
    return {{"rope_type", "longrope"},
            {"short_factor", factors},
            {"long_factor", factors},
            {"attention_factor", 1.0},
            {"original_max_position_embeddings", original}};
  }
  if (!short_factors.empty() && !long_factors.empty()) {
    return {{"rope_type", "longrope"},
            {"short_factor", short_factors},
            {"long_factor", long_factors},
            {"attention_factor", model.number_or("rope.scaling.attn_factor", 1.0)},
            {"original_max_position_embeddings", original}};
  }
  const double old_factor = model.number_or("rope.scale_linear", 1.0);
  const std::string_view type = model.text_or("rope.scaling.type", old_factor == 1.0 ? "none" : "linear");
  if (type == "none") return nullptr;
  json scaling = {{"rope_type", type},
                  {"factor", model.number_or("rope.scaling.factor", old_factor)},
                  {"original_max_position_embeddings", original}};
  if (type == "yarn") {
    scaling["beta_fast"] = model.number_or("rope.scaling.yarn_beta_fast", 32.0);
    scaling["beta_slow"] = model.number_or("rope.scaling.yarn_beta_slow", 1.0);
    // DeepSeek's: a tenth of mscale_all_dim, which equals mscale in all its models.
    if (model.has("rope.scaling.yarn_log_multiplier"))
      scaling["mscale"] = scaling["mscale_all_dim"] = 10 * model.number("rope.scaling.yarn_log_multiplier");
  }
  return scaling;
}

// The end-of-sequence tokens: of the text, of a turn and of a message.
json eos_token_ids(const GgufMetadata& metadata) {
  json ids = json::array();
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (!metadata.has(key)) continue;
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
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? "float32" : most->first;
}

// Models of experts only may not have it.
std::uint64_t intermediate_size(const ModelMetadata& model) {
  return model.has("feed_forward_length") ? model.whole("feed_forward_length")
                                          : model.whole("expert_feed_forward_length");
}

// What most families have, under Llama's names.
json common_config(const ModelMetadata& model) {
  const GgufFiles::Entry* const embedding = model.files().find("token_embd.weight");
  const GgufFiles::Entry* const head = model.files().find("output.weight");
  // Tied embeddings are stored under either name.
  const GgufFiles::Entry* const table = embedding != nullptr ? embedding : head;
  if (table == nullptr || table->tensor.shape.size() != 2) {
    throw_error<CheckpointError>(
        "{}: there is no matrix token_embd.weight, nor output.weight; the file holds no language model",
        model.files().name());
  }
  return {{"hidden_size", model.whole("embedding_length")},
          {"intermediate_size", intermediate_size(model)},
          {"num_hidden_layers", model.whole("block_count")},
          {"num_attention_heads", model.heads()},
          {"num_key_value_heads", model.kv_heads()},
          {"head_dim", model.head_dim()},
          {"vocab_size", table->tensor.shape.front()},
          {"max_position_embeddings", model.whole("context_length")},
          {"rms_norm_eps", model.number_or("attention.layer_norm_rms_epsilon", 1e-6)},
          {"rope_theta", model.number_or("rope.freq_base", 10000.0)},
          {"rope_scaling", rope_scaling(model)},
          {"attention_bias", model.has_tensor("blk.0.attn_output.bias")},
          {"mlp_bias", model.has_tensor("blk.0.ffn_up.bias")},
          {"tie_word_embeddings", embedding == nullptr || head == nullptr},
          {"hidden_act", "silu"},
          {"torch_dtype", torch_dtype(model.files())},
          {"eos_token_id", eos_token_ids(model.files().metadata())}};
}

}  // namespace

json gguf_config(const GgufFiles& files) {
  const ModelMetadata model(files);
  const Family& family = family_of(model);
  json config = common_config(model);
  config["architectures"] = {family.architecture};
  if (family.gguf.config != nullptr) config.update(family.gguf.config(model), /*merge_objects=*/true);
  return config;
}

}  // namespace tp
