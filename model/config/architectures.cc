#include "model/config/architectures.h"

#include "model/config/non_causal_spec.h"
#include "model/files/printable.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/ranges.h>

namespace tp {
namespace families {

#define TP_FAMILY(name) Family name();
#define TP_ENCODER(name) std::vector<Family> name();
#include "model/config/family_list.inc"
#undef TP_ENCODER
#undef TP_FAMILY

}  // namespace families

namespace {

const std::vector<Family>& all_families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> list;
#define TP_FAMILY(name) list.push_back(families::name());
#define TP_ENCODER(name) std::ranges::move(families::name(), std::back_inserter(list));
#include "model/config/family_list.inc"
#undef TP_ENCODER
#undef TP_FAMILY
    return list;
  }();
  return all;
}

std::set<std::string> gguf_architectures() {
  std::set<std::string> names;
  for (const Family& family : all_families())
    names.insert({family.gguf.architecture, family.gguf.moe_architecture});
  names.erase("");  // families without GGUF files
  return names;
}

// Refuses limits of activations that the family's function has not put into the spec.
void require_limits_in(const ModelSpec& spec, const CheckpointConfig& config) {
  const auto are_none = [](const std::vector<double>& limits) {
    return std::ranges::all_of(limits, [](double limit) { return limit == 0.0; });
  };
  if (are_none(config.experts.swiglu_limits) && are_none(config.experts.shared_swiglu_limits)) return;
  const bool are_used = std::ranges::any_of(spec.blocks, [](const BlockSpec& block) {
    const auto* const mlp = std::get_if<GatedMlpSpec>(&block.feed_forward);
    const MixtureOfExpertsSpec* const experts = experts_in(block);
    return (mlp != nullptr && mlp->limit != 0.0F) ||
           (experts != nullptr && (experts->limit != 0.0F || experts->shared_limit != 0.0F));
  });
  require<ConfigError>(are_used,
                       "swiglu_limits are not supported for {}, expected none; use a model without them",
                       config.architecture);
}

}  // namespace

ModelSpec make_spec(const CheckpointConfig& config) {
  const Family& family = family_of(config.architecture);
  ModelSpec spec = family.make_spec(config);
  require_limits_in(spec, config);
  if (family.set_head) family.set_head(config, spec);
  if (!config.is_causal) attend_to_all_positions(spec);
  return spec;
}

ModelKind kind_of(const CheckpointConfig& config) {
  return config.is_causal ? family_of(config.architecture).kind : ModelKind::non_causal;
}

ModelSpec make_next_token_spec(const CheckpointConfig& config) {
  const Family& family = family_of(config.architecture);
  if (family.make_next_token_spec == nullptr) {
    std::vector<std::string> able;
    for (const Family& any : all_families()) {
      if (any.make_next_token_spec != nullptr) able.push_back(any.architecture);
    }
    throw_error<ConfigError>(
        "cannot draft tokens by multi-token prediction: expected a family whose checkpoints have a layer for "
        "it ({}), found {}; use a different kind of drafts",
        fmt::join(able, ", "), config.architecture);
  }
  return family.make_next_token_spec(config);
}

HeadCounts head_counts(const AttentionPartSpec& spec) {
  struct Visitor {
    HeadCounts operator()(const AttentionSpec& part) const {
      return {part.num_attention_heads, part.num_key_value_heads};
    }
    // Every rank stores the latent, which all heads share.
    HeadCounts operator()(const LatentAttentionSpec& part) const { return {part.num_attention_heads, 1}; }
    HeadCounts operator()(const CompressedAttentionSpec& part) const { return {part.num_attention_heads, 1}; }
    HeadCounts operator()(const GatedDeltaNetSpec& part) const {
      return {part.num_value_heads, part.num_key_heads};
    }
    HeadCounts operator()(const LshAttentionSpec& part) const {
      return {part.num_attention_heads, part.num_attention_heads};
    }
    HeadCounts operator()(const ShortConvolutionSpec& part) const { return {part.channels, part.channels}; }
    HeadCounts operator()(const MambaSpec& part) const {
      return {part.num_heads, part.num_groups, part.norm_groups > 1 ? part.num_heads / part.norm_groups : 1};
    }
    HeadCounts operator()(const Mamba1Spec& part) const { return {part.units(), part.units()}; }
    HeadCounts operator()(const Rwkv7Spec& part) const { return {part.num_heads, part.num_heads}; }
    HeadCounts operator()(const NoPartSpec&) const { return {}; }
  };
  return std::visit(Visitor{}, spec);
}

bool is_recurrent(const AttentionPartSpec& spec) {
  const auto* const attention = std::get_if<AttentionSpec>(&spec);
  return std::holds_alternative<GatedDeltaNetSpec>(spec) ||
         std::holds_alternative<ShortConvolutionSpec>(spec) || std::holds_alternative<MambaSpec>(spec) ||
         std::holds_alternative<Mamba1Spec>(spec) || std::holds_alternative<Rwkv7Spec>(spec) ||
         (attention != nullptr && attention->favor_features != 0);
}

bool keeps_state(const BlockSpec& block) {
  return is_recurrent(block.attention) || block.parallel_mixer || block.hash_table || keeps_open_pools(block);
}

bool keeps_open_pools(const BlockSpec& block) {
  if (const auto* const compressed = std::get_if<CompressedAttentionSpec>(&block.attention))
    return compressed->pool != 0;
  const IndexerSpec* const indexer = indexer_of(block);
  return (indexer != nullptr && !indexer->is_shared && indexer->pool > 1) ||
         pooled_indexer_of(block) != nullptr;
}

bool keeps_keys(const BlockSpec& block) {
  return !is_recurrent(block.attention) && !std::holds_alternative<NoPartSpec>(block.attention);
}

std::size_t intermediate_size(const FeedForwardSpec& spec) {
  return std::visit(
      [](const auto& part) -> std::size_t {
        if constexpr (requires { part.intermediate_size; }) return part.intermediate_size;
        return 0;
      },
      spec);
}

const MixtureOfExpertsSpec* experts_in(const BlockSpec& block) {
  return block.parallel_experts ? &block.parallel_experts->experts
                                : std::get_if<MixtureOfExpertsSpec>(&block.feed_forward);
}

const MambaSpec* first_mixer(const ModelSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    if (block.parallel_mixer) return &*block.parallel_mixer;
    if (const auto* const mixer = std::get_if<MambaSpec>(&block.attention)) return mixer;
  }
  return nullptr;
}

const IndexerSpec* indexer_of(const BlockSpec& block) {
  if (const auto* const compressed = std::get_if<CompressedAttentionSpec>(&block.attention))
    return compressed->indexer ? &*compressed->indexer : nullptr;
  const auto* const latent = std::get_if<LatentAttentionSpec>(&block.attention);
  return latent != nullptr && latent->indexer ? &*latent->indexer : nullptr;
}

const BlockIndexerSpec* block_indexer_of(const BlockSpec& block) {
  const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
  return attention != nullptr && attention->block_indexer ? &*attention->block_indexer : nullptr;
}

const IndexerSpec* first_indexer(const ModelSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    if (const IndexerSpec* const indexer = indexer_of(block)) return indexer;
  }
  return nullptr;
}

const PooledIndexerSpec* pooled_indexer_of(const BlockSpec& block) {
  const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
  return attention != nullptr && attention->pooled_indexer ? &*attention->pooled_indexer : nullptr;
}

std::size_t max_chosen(const ModelSpec& spec) {
  std::size_t max = 0;
  for (const BlockSpec& block : spec.blocks) {
    if (const IndexerSpec* const indexer = indexer_of(block)) max = std::max(max, indexer->max_chosen());
  }
  return max;
}

std::size_t candidate_blocks(const ModelSpec& spec) {
  std::size_t max = 0;
  for (const BlockSpec& block : spec.blocks) {
    const IndexerSpec* const indexer = indexer_of(block);
    if (indexer != nullptr && indexer->candidates) max = std::max(max, indexer->candidates->blocks);
  }
  return max;
}

std::optional<std::size_t> shared_cache_layer(const BlockSpec& block) {
  if (const auto* const compressed = std::get_if<CompressedAttentionSpec>(&block.attention))
    return compressed->shared_pools_layer;
  const auto* const attention = std::get_if<AttentionSpec>(&block.attention);
  return attention != nullptr ? attention->shared_kv_layer : std::nullopt;
}

bool has_hash_tables(const ModelSpec& spec) {
  return std::ranges::any_of(spec.blocks,
                             [](const BlockSpec& block) { return block.hash_table.has_value(); });
}

void divide_hash_tables(ModelSpec& spec) {
  for (BlockSpec& block : spec.blocks) {
    if (block.hash_table) block.hash_table->is_divided = true;
  }
}

bool shares_indexers(const ModelSpec& spec) {
  return std::ranges::any_of(spec.blocks, [](const BlockSpec& block) {
    const IndexerSpec* const indexer = indexer_of(block);
    return indexer != nullptr && indexer->is_shared;
  });
}

bool can_divide_layers(const ModelSpec& spec) {
  if (spec.per_layer_inputs || spec.self_conditioning || altup_of(spec) != nullptr ||
      first_part<Rwkv7Spec>(spec) != nullptr)
    return false;
  return std::ranges::none_of(spec.blocks,
                              [](const BlockSpec& block) { return shared_cache_layer(block).has_value(); });
}

std::size_t leaf_heads(const ModelSpec& spec) {
  if (!spec.same_bits) return 0;
  std::size_t max = 0;
  for (const BlockSpec& block : spec.blocks) {
    // Channels are divided like the columns of an MLP. Mixers may have fewer heads or units than there are
    // ranks.
    if (std::holds_alternative<ShortConvolutionSpec>(block.attention) ||
        std::holds_alternative<MambaSpec>(block.attention) ||
        std::holds_alternative<Mamba1Spec>(block.attention))
      continue;
    max = std::max(max, head_counts(block.attention).heads);
  }
  if (const MambaSpec* const mixer = first_mixer(spec); mixer != nullptr && max == 0) max = mixer->num_heads;
  if (const auto* const mixer = first_part<Mamba1Spec>(spec); mixer != nullptr && max == 0)
    max = mixer->units();
  if (!spec.encoder) return max;
  ModelSpec encoder = *spec.encoder;
  encoder.same_bits = true;
  return std::max(max, leaf_heads(encoder));
}

const Family& family_of(const std::string& architecture) {
  const auto found = std::ranges::find_if(all_families(), [&](const Family& family) {
    return family.architecture == architecture ||
           std::ranges::find(family.aliases, architecture) != family.aliases.end();
  });
  if (found == all_families().end()) {
    throw_error<ConfigError>("models of the family {} are not supported; supported are {}", architecture,
                             fmt::join(supported_architectures(), ", "));
  }
  return *found;
}

const Family& family_of(const ModelMetadata& model) {
  const auto found = std::ranges::find_if(all_families(), [&](const Family& family) {
    const bool is_same = model.architecture() == family.gguf.architecture ||
                         model.architecture() == family.gguf.moe_architecture;
    return is_same && !model.architecture().empty() &&
           (family.gguf.is_of == nullptr || family.gguf.is_of(model));
  });
  const std::set<std::string> known = gguf_architectures();
  require<ConfigError>(
      found != all_families().end() || !known.contains(model.architecture()),
      "{}: GGUF models of the architecture {} are not supported with the head that this file "
      "has (pooling_type {}); use a model without it",
      model.files().name(), model.architecture(), model.whole_or("pooling_type", 0));
  require<ConfigError>(found != all_families().end(),
                       "{}: GGUF models of the architecture {} are not supported; supported are {}",
                       model.files().name(), printable(model.architecture()), fmt::join(known, ", "));
  return *found;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Family& family : all_families()) {
    names.push_back(family.architecture);
    names.insert(names.end(), family.aliases.begin(), family.aliases.end());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace tp
