// DeepSeek-V4 and V4.1 in GGUF files. Sources of keys: llama.cpp, src/models/deepseek4.cpp, and its pull
// request 28696; for files that carry config.json: antirez, ds4, gguf-tools/deepseek41_quantize.py.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

// Names of expert_gating_func in config.json.
const char* scoring_func(std::uint64_t number) {
  constexpr std::uint64_t kSqrtSoftplus = 4;
  constexpr std::uint64_t kSigmoid = 2;
  return number == kSqrtSoftplus ? "sqrtsoftplus" : number == kSigmoid ? "sigmoid" : "softmax";
}

nlohmann::json experts_in_gguf(const ModelMetadata& model) {
  nlohmann::json config = {{"n_routed_experts", model.whole("expert_count")},
                           {"num_experts_per_tok", model.whole("expert_used_count")},
                           {"n_shared_experts", model.whole_or("expert_shared_count", 0)},
                           {"moe_intermediate_size", model.whole("expert_feed_forward_length")},
                           {"routed_scaling_factor", model.number_or("expert_weights_scale", 1.0)},
                           {"norm_topk_prob", model.boolean_or("expert_weights_norm", false)},
                           {"scoring_func", scoring_func(model.whole("expert_gating_func"))},
                           {"num_hash_layers", model.whole_or("hash_layer_count", 0)},
                           {"swiglu_limits", std::vector<double>(model.whole("block_count"))}};  // if none
  config.update(gguf_activation_limits(model));
  return config;
}

// The layers that have this tensor.
std::vector<std::size_t> layers_with(const char* tensor, const ModelMetadata& model, std::size_t layers) {
  std::vector<std::size_t> found;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (model.has_tensor(fmt::format("blk.{}.{}", layer, tensor))) found.push_back(layer);
  }
  return found;
}

// Files may lack the numbers of candidates, which then are usual.
nlohmann::json sources_in_gguf(const ModelMetadata& model, std::size_t layers) {
  nlohmann::json config = {{"kv_source_layer_ids", layers_with("attn_compressor_kv.weight", model, layers)},
                           {"index_source_layer_ids", layers_with("indexer.attn_q_b.weight", model, layers)}};
  for (const char* const name :
       {"candidate_source_layer_id", "candidate_block_size", "candidate_topk_blocks"}) {
    const std::string key = std::string("attention.") + name;
    if (model.has(key)) config[name] = model.whole(key);
  }
  return config;
}

// Throws ConfigError unless each table's rows are those of its heads, one after the other.
void require_usual_offsets(const ModelMetadata& model, const std::vector<std::uint64_t>& primes,
                           std::size_t heads) {
  std::vector<std::uint64_t> expected;
  for (std::size_t i = 0; i < primes.size(); ++i)
    expected.push_back(heads == 0 || i % heads == 0 ? 0 : expected.back() + primes[i - 1]);
  require<ConfigError>(model.wholes("engram.offsets") == expected,
                       "{}: engram.offsets must be sums of the engram.primes before, {}, found {}; convert "
                       "the model again",
                       model.files().name(), fmt::join(expected, ", "),
                       fmt::join(model.wholes("engram.offsets"), ", "));
}

// The sizes of hash tables. The padding is a folded id.
nlohmann::json engram_sizes_in_gguf(const ModelMetadata& model) {
  const std::uint64_t ngram_size = model.whole("engram.max_ngram_size");
  const std::uint64_t heads = model.whole("engram.head_count");
  require_usual_offsets(model, model.wholes("engram.primes"), (ngram_size - 1) * heads);
  const std::vector<std::uint64_t> folded = model.wholes("engram.token_map");
  const auto pad = std::ranges::find(folded, model.whole("engram.pad_id"));
  require<ConfigError>(pad != folded.end(),
                       "{}: engram.pad_id must be one of engram.token_map, found {}; convert the model again",
                       model.files().name(), model.whole("engram.pad_id"));
  return {{"engram_layer_ids", model.wholes("engram.layer_ids")},
          {"engram_max_ngram_size", ngram_size},
          {"engram_n_heads", heads},
          {"engram_head_dim", model.whole("engram.key_length")},
          {"engram_pad_token_id", pad - folded.begin()}};
}

}  // namespace

// All heads share a latent, which has the size of a head.
nlohmann::json deepseek_v4_config(const ModelMetadata& model) {
  nlohmann::json config = gguf_next_token_layers(model);
  config.update(numbers_in_gguf(kCompressedAttentionNumbers, model));
  config.update(numbers_in_gguf(kIndexerNumbers, model));
  config.update(numbers_in_gguf(kHyperConnectionNumbers, model));
  config.update(experts_in_gguf(model));
  config.update({{"num_key_value_heads", 1},
                 {"qk_rope_head_dim", model.whole("rope.dimension_count")},
                 {"sliding_window", model.whole("attention.sliding_window")},
                 {"compress_ratios", model.wholes("attention.compress_ratios")},
                 {"compress_rope_theta", model.number("attention.compress_rope_freq_base")},
                 {"hc_eps", model.number("hyper_connection.epsilon")},
                 {"hc_sinkhorn_iters", model.whole("hyper_connection.sinkhorn_iterations")}});
  return config;
}

// A file that carries config.json adds the constants of hashes, and the folded ids, which otherwise follow
// from tokenizer.json.
nlohmann::json deepseek_v41_config(const ModelMetadata& model) {
  const bool is_carried = !model.carried_config().empty();
  nlohmann::json config = nlohmann::json::object();
  if (!is_carried) {
    config = deepseek_v4_config(model);
    config.update(sources_in_gguf(model, config.at("num_hidden_layers").get<std::size_t>()));
  }
  if (!model.has("engram.layer_ids")) return config;
  if (!is_carried) config.update(engram_sizes_in_gguf(model));
  const std::vector<std::uint64_t> folded = model.wholes("engram.token_map");
  config.update({{"engram_compressed_vocab_size", std::ranges::max(folded) + 1},
                 {"engram_multipliers", model.exact_wholes("engram.multipliers")},
                 {"engram_primes", model.wholes("engram.primes")},
                 {kTokenMap, folded}});
  return config;
}

void adapt_deepseek_v41_names(const ModelMetadata& model, TensorNames& names) {
  if (!model.carried_config().empty()) names.gguf.block.hash_table = gguf_names(kCarriedEngramTensors);
}

}  // namespace tp::families
