#include "model/config/favor_spec.h"

#include "tp/internal/require.h"

#include <string_view>

namespace tp {
namespace {

// Names a property of attention that random features cannot express; empty: none.
std::string_view obstacle(const AttentionSpec& attention) {
  if (!attention.pattern.causal) return "attention to tokens that follow";
  if (attention.softcap) return "soft caps of scores";
  if (!attention.alibi_slopes.empty()) return "ALiBi";
  if (attention.sinks) return "attention sinks";
  if (attention.relative_bias) return "relative positions";
  if (attention.block_indexer || attention.pooled_indexer)
    return "attention to blocks that an indexer chooses";
  if (attention.value_dim() != attention.head_dim) return "values of another size than keys";
  if (attention.shared_kv_layer) return "layers that share keys and values";
  return "";
}

bool sees_all_before(const AttentionPattern& pattern) {
  return !pattern.window && !pattern.chunk && pattern.block_size == 0;
}

}  // namespace

void approximate_attention(ModelSpec& spec, std::size_t favor_features) {
  const auto refuse = [](std::string_view found) {
    throw_error<ConfigError>(
        "cannot approximate attention by random features: expected a decoder whose scores are products of "
        "queries and keys, found {}; use exact attention (`favor_features` 0)",
        found);
  };
  if (takes_whole_sequences(spec)) refuse("a model that computes whole sequences");
  if (spec.encoder) refuse("an encoder-decoder");
  if (spec.diffusion) refuse("a diffusion language model, whose tokens see later tokens of their block");
  bool any = false;
  for (BlockSpec& block : spec.blocks) {
    if (std::holds_alternative<LatentAttentionSpec>(block.attention)) refuse("latent attention");
    if (std::holds_alternative<CompressedAttentionSpec>(block.attention)) refuse("compressed attention");
    auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    if (attention == nullptr || !sees_all_before(attention->pattern)) continue;
    if (const std::string_view found = obstacle(*attention); !found.empty()) refuse(found);
    attention->favor_features = favor_features;
    any = true;
  }
  if (!any) refuse("a model whose layers all have windows or a recurrence already");
}

}  // namespace tp
