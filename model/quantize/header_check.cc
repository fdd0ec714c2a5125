#include "model/quantize/header_check.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/config/gguf_config.h"
#include "model/layers/linear/rope.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

bool is_close(float one, float other) { return std::abs(one - other) <= 1e-6F * std::abs(one); }

// Whether two RoPEs give the same angles, even if they are described differently.
bool rotate_alike(const std::optional<RopeSpec>& one, const std::optional<RopeSpec>& other,
                  std::size_t max_positions) {
  if (!one || !other) return !one && !other;
  if (one->rotary_dim != other->rotary_dim) return false;
  // LongRoPE has different factors for long and for short sequences.
  for (const std::size_t positions : {std::size_t{1}, max_positions}) {
    const Rope first(*one, positions);
    const Rope second(*other, positions);
    if (!is_close(first.magnitude(), second.magnitude()) ||
        !std::ranges::equal(first.frequencies(), second.frequencies(), is_close))
      return false;
  }
  return true;
}

// Copies numbers that are close from attention of the same kind, so that rounding does not count as a
// difference. Names the first number that is not close; empty: none.
template <class Spec>
std::string_view rounding_taken_over(const Spec& in_file, std::size_t max_positions, Spec& attention) {
  if (!rotate_alike(attention.rope, in_file.rope, max_positions)) return "its rotary positions";
  attention.rope = in_file.rope;
  if (!is_close(attention.scale, in_file.scale)) return "the scale of its attention scores";
  attention.scale = in_file.scale;
  if (!attention.query_scaling || !in_file.query_scaling) return "";
  const auto factor = [](const Spec& spec) { return static_cast<float>(spec.query_scaling->factor); };
  if (is_close(factor(attention), factor(in_file)))
    attention.query_scaling->factor = in_file.query_scaling->factor;
  return "";
}

// Names the first difference between two blocks, apart from windows; empty if they are equal.
std::string_view difference(BlockSpec one, BlockSpec other, std::size_t max_positions) {
  if (!keeps_keys(one) || !keeps_keys(other)) {
    if (one.attention != other.attention) return "its recurrent layers";
    other.attention = one.attention = AttentionSpec();
  }
  if (one.parallel_mixer != other.parallel_mixer) return "its recurrent layers";
  if (one.hash_table && other.hash_table) one.hash_table->shards = other.hash_table->shards;
  auto* const attention = std::get_if<AttentionSpec>(&one.attention);
  auto* const latent = std::get_if<LatentAttentionSpec>(&one.attention);
  std::string_view found = "its attention";
  if (auto* const in_file = std::get_if<AttentionSpec>(&other.attention); in_file != nullptr && attention) {
    found = rounding_taken_over(*in_file, max_positions, *attention);
    if (!in_file->pattern.window) attention->pattern.window.reset();
  }
  if (auto* const in_file = std::get_if<LatentAttentionSpec>(&other.attention); in_file != nullptr && latent)
    found = rounding_taken_over(*in_file, max_positions, *latent);
  if (!found.empty()) return found;
  if (one.attention != other.attention) return "its attention";
  if (one.feed_forward != other.feed_forward) return "its feed-forward layers";
  return one == other ? "" : "its norms";
}

std::string_view difference(const ModelSpec& one, const ModelSpec& other) {
  if (one.vocab_size != other.vocab_size || one.hidden_size != other.hidden_size ||
      one.blocks.size() != other.blocks.size() ||
      one.max_position_embeddings != other.max_position_embeddings)
    return "its sizes";
  if (one.learned_positions != other.learned_positions ||
      one.first_learned_position != other.first_learned_position)
    return "its positions";
  if (one.tied_embeddings != other.tied_embeddings || one.lm_head_bias != other.lm_head_bias)
    return "its LM head";
  if (!is_close(one.logit_scale, other.logit_scale)) return "the scale of its logits";
  if (one.embedding_norm != other.embedding_norm) return "its norms";
  if (one.logit_softcap != other.logit_softcap) return "its soft caps";
  if (!is_close(one.embedding_scale, other.embedding_scale)) return "the scale of its embedding";
  if (one.final_norm != other.final_norm) return "its norms";
  if (one.per_layer_inputs != other.per_layer_inputs) return "its inputs per layer";
  for (std::size_t i = 0; i < one.blocks.size(); ++i) {
    const std::string_view found = difference(one.blocks[i], other.blocks[i], one.max_position_embeddings);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

std::size_t largest_window(const ModelSpec& spec) {
  std::size_t window = 0;
  for (const BlockSpec& block : spec.blocks) {
    if (const auto* const attention = std::get_if<AttentionSpec>(&block.attention))
      window = std::max(window, attention->pattern.window.value_or(0));
  }
  return window;
}

HeaderCheck check_header(const ModelSpec& spec, const std::string& model,
                         const std::filesystem::path& header) {
  const GgufFiles files(header);
  const ModelSpec in_file = make_spec(parse_config(gguf_config(files).dump(), header.string()));
  const std::string_view different = difference(spec, in_file);
  require<ConfigError>(different.empty(),
                       "cannot write {} as a GGUF file of the architecture {}: expected a model that GGUF "
                       "can describe, found that {} would be lost; use the checkpoint without converting it",
                       model, ModelMetadata(files).architecture(), different);
  return {.misses_windows = largest_window(in_file) < largest_window(spec)};
}

}  // namespace tp
