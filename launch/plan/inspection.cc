#include "launch/plan/inspection.h"

#include "launch/common/table.h"
#include "model/config/architectures.h"
#include "model/files/json_text.h"
#include "runtime/cache/state_slots.h"
#include "runtime/text/format_bytes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

std::string format_range(Range range) {
  if (range.empty()) return "-";
  if (range.size() == 1) return fmt::format("{}", range.begin);
  return fmt::format("{}-{}", range.begin, range.end - 1);
}

std::string rope_text(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::none:
      return "none";
    case RopeScaling::Kind::linear:
      return fmt::format("linear, factor {}", scaling.factor);
    case RopeScaling::Kind::llama3:
      return fmt::format("llama3, factor {}", scaling.factor);
    case RopeScaling::Kind::yarn:
      return fmt::format("yarn, factor {}", scaling.factor);
    case RopeScaling::Kind::longrope:
      return fmt::format("longrope, above {} tokens", scaling.original_max_position_embeddings);
    case RopeScaling::Kind::proportional:
      return fmt::format("proportional, {:.0f} % of pairs turn", 100 * scaling.turning_part);
  }
  return "";
}

std::string attention_text(const CheckpointConfig& config) {
  if (config.latent.kv_lora_rank != 0) return fmt::format("MLA, kv_lora_rank {}", config.latent.kv_lora_rank);
  if (config.num_key_value_heads == config.num_attention_heads) return "MHA";
  return config.num_key_value_heads == 1 ? "MQA" : "GQA";
}

std::string describe_type(const TypeUse& use) {
  return fmt::format("{} x {} ({})", use.tensors, use.type,
                     use.held_as ? fmt::format("auto: {}", name_of(*use.held_as)) : "not a type of weights");
}

// Returns the kind's name without its article.
std::string_view kind_name(const CheckpointConfig& config) {
  const std::string_view name = describe(kind_of(config));
  return name.substr(name.find(' ') + 1);
}

// Lines of a report, each with a name and a value.
class Lines {
 public:
  template <class Value>
  void add(const char* name, const Value& value) {
    fmt::format_to(std::back_inserter(text_), "{:<26}{}\n", name, value);
  }
  template <class Value>
  void add_unless_0(const char* name, const Value& value) {
    if (value != 0) add(name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Parameters of hash tables, of which a token reads a few rows.
std::size_t count_of_tables(const ModelSpec& spec) {
  std::size_t count = 0;
  for (const BlockSpec& block : spec.blocks) {
    if (block.hash_table) count += block.hash_table->rows * block.hash_table->row_size;
  }
  return count;
}

// Hash tables that ranks map instead of loading them.
std::size_t mapped_table_bytes(const Inspection& found) { return found.shares.front().table_bytes; }

void add_kind(const Inspection& found, Lines& lines) {
  const CheckpointConfig& config = found.config();
  lines.add("architecture", config.architecture);
  lines.add("kind", kind_name(config));
  if (const DrafterConfig& drafter = config.drafter; drafter.kind != DrafterKind::none) {
    lines.add("drafter", name_of(drafter.kind));
    lines.add("captured streams", describe_places(drafter));
  }
  lines.add("parameters", found.parameters.all);
  lines.add_unless_0("in hash tables", count_of_tables(found.model.spec()));
  if (const std::size_t bytes = mapped_table_bytes(found); bytes != 0)
    lines.add("memory of tables",
              fmt::format("{} in the page cache of each host, mapped from the files", format_bytes(bytes)));
  if (config.num_experts == 0) return;
  lines.add("active parameters", found.parameters.active);
  lines.add("experts",
            fmt::format("{}, {} per token", config.num_experts, config.experts.num_experts_per_tok));
}

// In configs of latent attention, head_dim is the size of a head's rotated part.
std::size_t head_dim_of(const CheckpointConfig& config) {
  return config.compressed.q_lora_rank != 0 ? config.compressed.head_dim : config.head_dim;
}

// Whether the model can draft with its layer for multi-token prediction.
bool can_draft(const CheckpointConfig& config) {
  return family_of(config.architecture).make_next_token_spec != nullptr;
}

void add_files(const Inspection& found, Lines& lines) {
  const std::optional<StoredWeights>& stored = found.model.stored();
  lines.add("checkpoint", stored ? format_bytes(stored->bytes)
                                 : fmt::format("not present; weights in {} according to the config",
                                               found.model.described_type()));
  const char* name = "tensors";
  for (const TypeUse& use : stored.value_or(StoredWeights{}).types)
    lines.add(std::exchange(name, ""), describe_type(use));
  if (stored && stored->next_token_tensors != 0)
    lines.add("multi-token prediction",
              fmt::format("{} tensors, {}", stored->next_token_tensors,
                          can_draft(found.config()) ? "used by --speculate mtp" : "not used"));
  if (found.unusable)
    lines.add("tokenizer", fmt::format("texts cannot be tokenized, only ids work: {}", *found.unusable));
}

std::string in_layers(std::size_t count) {
  return fmt::format("in {} layer{}", count, count == 1 ? "" : "s");
}

// Each line has one size of pools.
void add_compressed_attention(const ModelSpec& spec, Lines& lines) {
  std::map<std::size_t, std::size_t> layers;  // by the size of pools
  std::size_t window = 0;
  std::size_t readers = 0;  // layers that read the pools of other layers
  std::size_t choosers = 0;
  for (const BlockSpec& block : spec.blocks) {
    const auto* const compressed = std::get_if<CompressedAttentionSpec>(&block.attention);
    if (compressed == nullptr) continue;
    ++layers[compressed->pool];
    window = compressed->window;
    if (compressed->shared_pools_layer) ++readers;
    if (compressed->chooses()) ++choosers;
  }
  const char* name = "compressed attention";
  for (const auto& [pool, count] : layers) {
    const std::string pools = pool == 0 ? "" : fmt::format(" and pools of {}", pool);
    lines.add(std::exchange(name, ""), fmt::format("{} tokens{}, {}", window, pools, in_layers(count)));
  }
  if (readers == 0) return;
  lines.add("",
            fmt::format("{} layers read the pools of earlier layers; {} layers choose", readers, choosers));
  const IndexerSpec* candidates = nullptr;
  for (const BlockSpec& block : spec.blocks) {
    const IndexerSpec* const indexer = indexer_of(block);
    if (indexer != nullptr && indexer->candidates) candidates = indexer;
  }
  if (candidates != nullptr)
    lines.add("candidates", fmt::format("{} blocks of {}", candidates->candidates->blocks,
                                        candidates->candidates->block_size));
}

void add_heads(const Inspection& found, Lines& lines) {
  const CheckpointConfig& config = found.config();
  if (const MambaSpec* const mixer = first_mixer(found.model.spec()))
    lines.add("mixers", fmt::format("Mamba-2, {} heads of {}, {} groups, states of {}", mixer->num_heads,
                                    mixer->head_dim, mixer->num_groups, mixer->state_size));
  if (const auto* const mixer = first_part<Mamba1Spec>(found.model.spec()))
    lines.add("mixers",
              fmt::format("Mamba-1, {} channels, states of {}", mixer->channels, mixer->state_size));
  if (const auto* const mix = first_part<Rwkv7Spec>(found.model.spec()))
    lines.add("mixers", fmt::format("RWKV-7, {} heads, states of {} x {}", mix->num_heads, mix->head_dim,
                                    mix->head_dim));
  if (const auto* const net = first_part<GatedDeltaNetSpec>(found.model.spec()))
    lines.add("mixers", fmt::format("{}, {} heads, states of {} x {}",
                                    net->element_decays ? "Kimi delta attention" : "gated delta net",
                                    net->num_value_heads, net->key_head_dim, net->value_head_dim));
  if (const IndexerSpec* const indexer = first_indexer(found.model.spec())) {
    const std::string pools = indexer->pool > 1 ? fmt::format(" in pools of {}", indexer->pool) : "";
    lines.add("indexers", fmt::format("{} heads of {}, {} positions{}", indexer->num_heads, indexer->head_dim,
                                      indexer->top_k, pools));
  }
  add_compressed_attention(found.model.spec(), lines);
  const auto chooses = [](const BlockSpec& block) { return block_indexer_of(block) != nullptr; };
  const std::vector<BlockSpec>& blocks = found.model.spec().blocks;
  if (const auto block = std::ranges::find_if(blocks, chooses); block != blocks.end()) {
    const BlockIndexerSpec& indexer = *block_indexer_of(*block);
    lines.add("indexers",
              fmt::format("{} heads of {}, {} blocks of {} positions, {}", config.num_key_value_heads,
                          indexer.head_dim, indexer.top_k, indexer.block_size,
                          in_layers(static_cast<std::size_t>(std::ranges::count_if(blocks, chooses)))));
  }
  const auto pools = [](const BlockSpec& block) { return pooled_indexer_of(block) != nullptr; };
  if (const auto block = std::ranges::find_if(blocks, pools); block != blocks.end()) {
    const PooledIndexerSpec& indexer = *pooled_indexer_of(*block);
    lines.add("indexers",
              fmt::format("{} heads of {}, {} pools of {} positions, {}", indexer.num_heads, indexer.head_dim,
                          indexer.top_k, indexer.pool,
                          in_layers(static_cast<std::size_t>(std::ranges::count_if(blocks, pools)))));
  }
  if (std::ranges::none_of(found.model.spec().blocks, keeps_keys)) return;
  lines.add("num_attention_heads", config.num_attention_heads);
  lines.add("num_key_value_heads",
            fmt::format("{} ({})", config.num_key_value_heads, attention_text(config)));
  // Heads of latent attention without a rotated part have no size of this name.
  if (config.latent.kv_lora_rank == 0 || config.latent.qk_rope_head_dim != 0)
    lines.add("head_dim", head_dim_of(config));
}

void add_shape(const Inspection& found, Lines& lines) {
  const CheckpointConfig& config = found.config();
  lines.add("hidden_size", config.hidden_size);
  lines.add("intermediate_size", config.intermediate_size);
  lines.add_unless_0("encoder_layers", config.seq2seq.encoder_layers);
  lines.add("num_hidden_layers", config.num_hidden_layers);
  add_heads(found, lines);
  lines.add_unless_0("global_head_dim", config.global_head_dim);
  lines.add_unless_0("num_global_kv_heads", config.num_global_key_value_heads);
  lines.add_unless_0("num_kv_shared_layers", config.num_kv_shared_layers);
  lines.add("vocab_size", config.vocab_size);
  lines.add_unless_0("draft_vocab_size", config.drafter.draft_vocab_size);
  lines.add("max_position_embeddings", config.max_position_embeddings);
  lines.add("rope_theta", config.rope_theta);
  lines.add("rope_scaling", rope_text(config.rope_scaling));
  lines.add("tie_word_embeddings", config.tie_word_embeddings);
}

void add_attention(const Inspection& found, Lines& lines) {
  if (const auto& diffusion = found.model.spec().diffusion) {
    const bool has_blocks = diffusion->block_length != 0;
    if (diffusion->canvas) {
      lines.add("canvas_length", diffusion->block_length);
      lines.add("attention", "to earlier tokens, and within canvases");
    } else {
      lines.add("mask_token_id", diffusion->mask_token);
      lines.add("attention", has_blocks ? fmt::format("by blocks of {} tokens", diffusion->block_length)
                                        : "bidirectional");
    }
  }
  const CacheUse& cache = found.cache;
  const std::size_t chunk = found.config().attention_chunk_size;
  if (cache.windowed_layers != 0)
    lines.add(chunk != 0 ? "attention_chunk_size" : "sliding_window",
              fmt::format("{} tokens, {}", chunk != 0 ? chunk : found.config().sliding_window,
                          in_layers(cache.windowed_layers)));
  if (cache.recurrent_layers != 0)
    lines.add("recurrent layers",
              fmt::format("{}, {} states for {} sequences and their snapshots", cache.recurrent_layers,
                          cache.states, cache.states / kStatesPerSequence));
}

std::string rank_heading(const Inspection& found) {
  const CacheUse& cache = found.cache;
  const std::size_t ranks = found.shares.size();
  return fmt::format("\n{} rank{}, weights in {}, cache for {} tokens in {}{}{}:\n", ranks,
                     ranks == 1 ? "" : "s", name_of(found.model.usual_type()), cache.tokens,
                     name_of(found.model.plan().kv_type()),
                     cache.without_windows > 1.0
                         ? fmt::format(" ({:.1f} times as much without windows)", cache.without_windows)
                         : "",
                     found.model.plan().host_of.empty() ? "" : ", one copy per host");
}

std::string rank_table(const Inspection& found) {
  const bool has_states = found.cache.recurrent_layers != 0;
  std::vector<std::string> columns = {"rank",       "q heads", "kv heads", "mlp columns",
                                      "vocabulary", "weights", "cache",    "workspace"};
  const bool has_adapters = !found.model.plan().options.adapters.empty();
  if (has_states) columns.insert(columns.end() - 1, "states");
  if (has_adapters) columns.emplace_back("adapters");
  Table table(columns);
  for (const RankShare& share : found.shares) {
    std::vector<std::string> cells = {fmt::to_string(&share - found.shares.data()),
                                      format_range(share.heads.query_heads),
                                      format_range(share.heads.kv_heads),
                                      format_range(share.columns),
                                      format_range(share.vocab),
                                      format_bytes(share.weight_bytes),
                                      format_bytes(share.cache_bytes),
                                      format_bytes(share.workspace_bytes)};
    if (has_states) cells.insert(cells.end() - 1, format_bytes(share.state_bytes));
    if (has_adapters) cells.push_back(format_bytes(share.adapter_bytes));
    table.add(cells);
  }
  return table.text();
}

nlohmann::json ranks_json(const std::vector<RankShare>& shares) {
  const auto range = [](Range r) { return nlohmann::json::array({r.begin, r.end}); };
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankShare& share : shares) {
    ranks.push_back({{"query_heads", range(share.heads.query_heads)},
                     {"kv_heads", range(share.heads.kv_heads)},
                     {"mlp_columns", range(share.columns)},
                     {"vocabulary", range(share.vocab)},
                     {"weight_bytes", share.weight_bytes},
                     {"cache_bytes", share.cache_bytes},
                     {"state_bytes", share.state_bytes},
                     {"workspace_bytes", share.workspace_bytes},
                     {"adapter_bytes", share.adapter_bytes}});
  }
  return ranks;
}

nlohmann::json types_json(const StoredWeights& stored) {
  nlohmann::json types = nlohmann::json::array();
  for (const TypeUse& use : stored.types) {
    types.push_back({{"type", use.type},
                     {"tensors", use.tensors},
                     {"elements", use.elements},
                     {"held_as", use.held_as ? nlohmann::json(name_of(*use.held_as)) : nlohmann::json()}});
  }
  return types;
}

nlohmann::json config_json(const CheckpointConfig& config) {
  return {{"architecture", config.architecture},
          {"kind", kind_name(config)},
          {"drafter", config.drafter.kind == DrafterKind::none
                          ? nlohmann::json()
                          : nlohmann::json({{"kind", name_of(config.drafter.kind)},
                                            {"captured_places", config.drafter.places},
                                            {"draft_vocab_size", config.drafter.draft_vocab_size}})},
          {"num_experts", config.num_experts},
          {"num_experts_per_tok", config.experts.num_experts_per_tok},
          {"kv_lora_rank", config.latent.kv_lora_rank},
          {"torch_dtype", name_of(config.torch_dtype)},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"encoder_layers", config.seq2seq.encoder_layers},
          {"num_hidden_layers", config.num_hidden_layers},
          {"num_attention_heads", config.num_attention_heads},
          {"num_key_value_heads", config.num_key_value_heads},
          {"head_dim", head_dim_of(config)},
          {"global_head_dim", config.global_head_dim},
          {"num_global_key_value_heads", config.num_global_key_value_heads},
          {"num_kv_shared_layers", config.num_kv_shared_layers},
          {"vocab_size", config.vocab_size},
          {"max_position_embeddings", config.max_position_embeddings},
          {"rope_theta", config.rope_theta},
          {"rope_scaling", rope_text(config.rope_scaling)},
          {"tie_word_embeddings", config.tie_word_embeddings},
          {"sliding_window", config.sliding_window},
          {"attention_chunk_size", config.attention_chunk_size}};
}

}  // namespace

std::string inspection_text(const Inspection& found) {
  Lines lines;
  add_kind(found, lines);
  add_files(found, lines);
  add_shape(found, lines);
  add_attention(found, lines);
  return lines.text() + rank_heading(found) + rank_table(found);
}

std::string inspection_json(const Inspection& found) {
  const std::optional<StoredWeights>& stored = found.model.stored();
  nlohmann::json object = config_json(found.config());
  object.update({{"parameters", found.parameters.all},
                 {"active_parameters", found.parameters.active},
                 {"hash_table_parameters", count_of_tables(found.model.spec())},
                 {"mapped_table_bytes", mapped_table_bytes(found)},
                 {"stored_bytes", stored ? nlohmann::json(stored->bytes) : nlohmann::json()},
                 {"stored_types", types_json(stored.value_or(StoredWeights{}))},
                 {"next_token_tensors", stored.value_or(StoredWeights{}).next_token_tensors},
                 {"unusable_tokenizer", found.unusable ? nlohmann::json(*found.unusable) : nlohmann::json()},
                 {"windowed_layers", found.cache.windowed_layers},
                 {"recurrent_layers", found.cache.recurrent_layers},
                 {"states", found.cache.states},
                 {"context", found.cache.tokens},
                 {"weights", name_of(found.model.usual_type())},
                 {"kv_type", name_of(found.model.plan().kv_type())},
                 {"cache_per_host", !found.model.plan().host_of.empty()},
                 {"ranks", ranks_json(found.shares)}});
  return json_text(object, 2) + "\n";
}

}  // namespace tp
