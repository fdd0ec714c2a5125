#include "model/config/non_causal_spec.h"

#include "tp/internal/require.h"

#include <string_view>
#include <variant>

namespace tp {
namespace {

// The reason why a block cannot attend to later tokens; empty if it can.
std::string_view obstacle(const BlockSpec& block) {
  if (keeps_state(block)) return "recurrent layers";
  if (std::holds_alternative<LshAttentionSpec>(block.attention)) return "attention within hash buckets";
  if (indexer_of(block) != nullptr) return "indexers, which score earlier tokens";
  if (std::holds_alternative<CompressedAttentionSpec>(block.attention)) return "compressed attention";
  const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
  if (attention == nullptr) return "";
  if (attention->block_indexer || attention->pooled_indexer) return "indexers, which score earlier tokens";
  if (attention->pattern.chunk) return "attention within chunks";
  if (attention->shared_kv_layer) return "layers that use the keys and values of earlier layers";
  return "";
}

}  // namespace

void attend_to_all_positions(ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    const std::string_view found = obstacle(block);
    require<ConfigError>(found.empty(),
                         "is_causal (attention.causal in GGUF files) is false, expected layers whose tokens "
                         "can attend to later tokens, found {}; use a causal model",
                         found);
    if (auto* const latent = std::get_if<LatentAttentionSpec>(&block.attention)) latent->causal = false;
    auto* const attention = std::get_if<AttentionSpec>(&block.attention);
    if (attention == nullptr) continue;
    attention->pattern.causal = false;
    // transformers counts the window's last token in both directions, but without the token itself.
    if (attention->pattern.window) ++*attention->pattern.window;
  }
  spec.bidirectional = true;
}

}  // namespace tp
