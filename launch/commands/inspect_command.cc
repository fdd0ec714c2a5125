#include "launch/commands/subcommands.h"
#include "launch/common/json_text.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/common/table.h"
#include "launch/options/model_path.h"
#include "launch/options/split_flag.h"
#include "launch/plan/described_model.h"
#include "launch/ranks/on_first_rank.h"
#include "model/config/architectures.h"
#include "model/layers/decoder.h"
#include "model/tokenizer/tokenizer_files.h"
#include "parallel/machine/processors.h"
#include "runtime/cache/state_slots.h"
#include "runtime/plan/rank_shape.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"
#include "runtime/text/format_bytes.h"
#include "tp/engine.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <omp.h>

namespace tp {
namespace {

struct InspectFlags {
  std::string model;
  std::size_t ranks = 1;
  std::size_t context = 0;
  std::size_t prefill_chunk = 512;
  std::string weights = "auto";
  std::string kv_type = "auto";
  bool same_bits = false;
  std::vector<double> split;
  bool json = false;
  std::string output;
};

// What one rank would hold.
struct RankShare {
  HeadShard heads;
  Range columns;
  Range vocab;
  std::size_t weight_bytes = 0;
  std::size_t cache_bytes = 0;
  std::size_t state_bytes = 0;
  std::size_t workspace_bytes = 0;
};

// The part of the first layer with attention, or of the first one.
const AttentionPartSpec& shown_attention(const DecoderSpec& spec) {
  const auto found = std::ranges::find_if(
      spec.blocks, [](const BlockSpec& block) { return !is_recurrent(block.attention); });
  return (found == spec.blocks.end() ? spec.blocks.front() : *found).attention;
}

Range columns_of(const DecoderSpec& spec, std::size_t total, TpRank tp) {
  return shard_columns(total, tp, leaf_of(total, leaf_heads(spec)));
}

// A cache for one sequence.
struct CacheUse {
  std::size_t tokens = 0;
  std::size_t windowed_layers = 0;   // that keep no more than a window
  std::size_t recurrent_layers = 0;  // that keep a state in place of keys and values
  std::size_t states = 0;            // that there is room for, with max_sequences
  std::size_t blocks = 0;
  // That it would take if every layer kept all tokens, times as many bytes as there are.
  double without_windows = 1.0;
};

CacheUse cache_use(const EnginePlan& plan, const CacheGroups& groups, std::size_t context) {
  const std::size_t cached = groups.cached_layers();
  const CacheShape shape = plan.cache_shape(groups);
  CacheUse use{.tokens = context,
               .recurrent_layers = groups.places.size() - cached,
               .states = shape.states,
               .blocks = shape.blocks_for(context)};
  for (const std::optional<CacheGroups::Place>& place : groups.places)
    use.windowed_layers += place && groups.windows[place->group] ? 1 : 0;
  if (use.windowed_layers == 0) return use;
  const std::size_t whole = plan.cache_shape(CacheGroups::one(cached)).blocks_for(context);
  use.without_windows = static_cast<double>(whole * cached) / static_cast<double>(use.blocks * groups.slots);
  return use;
}

RankShare share_of(const DecoderSpec& spec, const Footprint& footprint, std::size_t cache_blocks, TpRank tp) {
  const BlockSpec& first = spec.blocks.front();
  const MemoryNeed need = footprint.of(tp);
  return {.heads = owned_heads(shown_attention(spec), tp),
          .columns = std::visit([&](const auto& mlp) { return columns_of(spec, mlp.intermediate_size, tp); },
                                first.feed_forward),
          .vocab = shard_columns(spec.vocab_size, tp),
          .weight_bytes = need.weights,
          .cache_bytes = cache_blocks * need.cache_block,
          .state_bytes = need.states,
          .workspace_bytes = need.workspace};
}

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
  }
  return "";
}

std::string attention_text(const ModelConfig& config) {
  if (config.kv_lora_rank != 0) return fmt::format("MLA, kv_lora_rank {}", config.kv_lora_rank);
  if (config.num_key_value_heads == config.num_attention_heads) return "MHA";
  return config.num_key_value_heads == 1 ? "MQA" : "GQA";
}

struct Parameters {
  std::size_t all = 0;
  std::size_t active = 0;  // that one token needs
};

std::string text_of(const TypeUse& use) {
  return fmt::format("{} x {} ({})", use.tensors, use.type,
                     use.held_as ? fmt::format("auto: {}", name_of(*use.held_as)) : "cannot be read");
}

// Without its article.
std::string_view kind_name(const ModelConfig& config) {
  const std::string_view name = describe(family_of(config.architecture).kind);
  return name.substr(name.find(' ') + 1);
}

// `unusable`: why the tokenizer in the model's file is.
std::string table_report(const ModelConfig& config, const Parameters& parameters, const DescribedModel& model,
                         const std::optional<std::string>& unusable, const std::vector<RankShare>& shares,
                         const CacheUse& cache, WeightType weights, KvType kv_type) {
  const std::optional<StoredWeights>& stored = model.stored();
  std::string text;
  const auto out = std::back_inserter(text);
  const auto row = [&](const char* name, const auto& value) {
    fmt::format_to(out, "{:<26}{}\n", name, value);
  };
  row("architecture", config.architecture);
  row("kind", kind_name(config));
  row("parameters", parameters.all);
  if (config.num_experts != 0) {
    row("active parameters", parameters.active);
    row("experts", fmt::format("{}, {} per token", config.num_experts, config.num_experts_per_tok));
  }
  if (stored) {
    row("checkpoint", format_bytes(stored->bytes));
    for (const TypeUse& use : stored->types) row(&use == stored->types.data() ? "tensors" : "", text_of(use));
  } else {
    row("checkpoint",
        fmt::format("not present; weights in {} according to the config", model.described_type()));
  }
  if (unusable) row("tokenizer", fmt::format("texts cannot be tokenized, only ids work: {}", *unusable));
  row("hidden_size", config.hidden_size);
  row("intermediate_size", config.intermediate_size);
  if (config.encoder_layers != 0) row("encoder_layers", config.encoder_layers);
  row("num_hidden_layers", config.num_hidden_layers);
  row("num_attention_heads", config.num_attention_heads);
  row("num_key_value_heads", fmt::format("{} ({})", config.num_key_value_heads, attention_text(config)));
  row("head_dim", config.head_dim);
  row("vocab_size", config.vocab_size);
  row("max_position_embeddings", config.max_position_embeddings);
  row("rope_theta", config.rope_theta);
  row("rope_scaling", rope_text(config.rope_scaling));
  row("tie_word_embeddings", config.tie_word_embeddings);
  if (const auto diffusion = make_spec(config).diffusion) {
    row("mask_token_id", diffusion->mask_token);
    row("attention", diffusion->block_length != 0
                         ? fmt::format("by blocks of {} tokens", diffusion->block_length)
                         : std::string("bidirectional"));
  }
  if (cache.windowed_layers != 0) {
    const bool has_chunks = config.attention_chunk_size != 0;
    row(has_chunks ? "attention_chunk_size" : "sliding_window",
        fmt::format("{} tokens, in {} layers",
                    has_chunks ? config.attention_chunk_size : config.sliding_window, cache.windowed_layers));
  }
  if (cache.recurrent_layers != 0)
    row("recurrent layers",
        fmt::format("{}, {} states for {} sequences and their snapshots", cache.recurrent_layers,
                    cache.states, cache.states / kStatesPerSequence));
  fmt::format_to(out, "\n{} rank{}, weights in {}, cache for {} tokens in {}", shares.size(),
                 shares.size() == 1 ? "" : "s", name_of(weights), cache.tokens, name_of(kv_type));
  if (cache.without_windows > 1.0)
    fmt::format_to(out, " ({:.1f} times as much without windows)", cache.without_windows);
  text += ":\n";
  std::vector<std::string> columns = {"rank",       "q heads", "kv heads", "mlp columns",
                                      "vocabulary", "weights", "cache",    "workspace"};
  if (cache.recurrent_layers != 0) columns.insert(columns.end() - 1, "states");
  Table table(columns);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const RankShare& share = shares[rank];
    std::vector<std::string> cells = {fmt::to_string(rank),
                                      format_range(share.heads.query_heads),
                                      format_range(share.heads.kv_heads),
                                      format_range(share.columns),
                                      format_range(share.vocab),
                                      format_bytes(share.weight_bytes),
                                      format_bytes(share.cache_bytes),
                                      format_bytes(share.workspace_bytes)};
    if (cache.recurrent_layers != 0) cells.insert(cells.end() - 1, format_bytes(share.state_bytes));
    table.add(cells);
  }
  return text + table.text();
}

std::string json_report(const ModelConfig& config, const Parameters& parameters, const DescribedModel& model,
                        const std::optional<std::string>& unusable, const std::vector<RankShare>& shares,
                        const CacheUse& cache, WeightType weights, KvType kv_type) {
  const std::optional<StoredWeights>& stored = model.stored();
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
                     {"workspace_bytes", share.workspace_bytes}});
  }
  nlohmann::json types = nlohmann::json::array();
  for (const TypeUse& use : stored.value_or(StoredWeights{}).types) {
    types.push_back({{"type", use.type},
                     {"tensors", use.tensors},
                     {"elements", use.elements},
                     {"held_as", use.held_as ? nlohmann::json(name_of(*use.held_as)) : nlohmann::json()}});
  }
  const nlohmann::json object = {
      {"architecture", config.architecture},
      {"kind", kind_name(config)},
      {"parameters", parameters.all},
      {"active_parameters", parameters.active},
      {"num_experts", config.num_experts},
      {"num_experts_per_tok", config.num_experts_per_tok},
      {"kv_lora_rank", config.kv_lora_rank},
      {"stored_bytes", stored ? nlohmann::json(stored->bytes) : nlohmann::json()},
      {"stored_types", types},
      {"unusable_tokenizer", unusable ? nlohmann::json(*unusable) : nlohmann::json()},
      {"torch_dtype", name_of(config.torch_dtype)},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"encoder_layers", config.encoder_layers},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocab_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"rope_theta", config.rope_theta},
      {"rope_scaling", rope_text(config.rope_scaling)},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"sliding_window", config.sliding_window},
      {"attention_chunk_size", config.attention_chunk_size},
      {"windowed_layers", cache.windowed_layers},
      {"recurrent_layers", cache.recurrent_layers},
      {"states", cache.states},
      {"context", cache.tokens},
      {"weights", name_of(weights)},
      {"kv_type", name_of(kv_type)},
      {"ranks", ranks}};
  return json_text(object, 2) + "\n";
}

// As the engine plans, with all ranks on this machine.
std::vector<RankShare> shares_of(const EnginePlan& plan, const DecoderSpec& spec, const WeightSource& weights,
                                 std::size_t cache_blocks, std::size_t ranks) {
  omp_set_num_threads(static_cast<int>(default_threads(ranks)));
  const Footprint footprint(spec, plan, weights);
  std::vector<RankShare> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shares.push_back(share_of(spec, footprint, cache_blocks, plan.tp(rank)));
  return shares;
}

void inspect(const InspectFlags& flags) {
  const std::filesystem::path model = find_model(flags.model, {".json"});
  const DescribedModel described({.model = model,
                                  .weights = find_weight_type(flags.weights),
                                  .kv_type = find_kv_type(flags.kv_type),
                                  .same_bits = flags.same_bits,
                                  .prefill_chunk = flags.prefill_chunk,
                                  .split = flags.split},
                                 flags.ranks, flags.kv_type == "auto");
  const EnginePlan& plan = described.plan();
  const DecoderSpec& spec = described.spec();
  const std::size_t context = flags.context != 0 ? flags.context : spec.max_position_embeddings;
  const CacheUse cache = cache_use(plan, CacheGroups::of(spec), context);
  const std::vector<RankShare> shares = shares_of(plan, spec, described.weights(), cache.blocks, flags.ranks);
  const Parameters parameters{count_parameters(spec), count_active_parameters(spec)};
  ResultOutput output(flags.output);
  const auto describe = flags.json ? json_report : table_report;
  output.write(describe(plan.config, parameters, described, find_tokenizer_flaws(model).unsupported, shares,
                        cache, described.usual_type(), plan.kv_type()));
  output.finish();
}

}  // namespace

// `tp-infer inspect`: what a model is and what each rank would own. Loads no weights and starts no MPI.
void add_inspect_command(CLI::App& app, int& /*status*/) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "Show a model's shape and what each rank would own");
  const OptionGroup options(*command);
  options.add("-m,--model", flags->model, "DIR", not_empty("a model"),
              "A checkpoint's folder, which needs only config.json; a GGUF file; or a config.json "
              "(default: the demo model)");
  options.add("--ranks", flags->ranks, "N", whole_number(1, 4096), "Ranks to plan for");
  command->add_flag("--same-bits", flags->same_bits, "Plan for runs with --same-bits");
  add_split_option(*command, flags->split);
  options.add("--context", flags->context, "N", whole_number(1),
              "Tokens of the sequence that the KV cache has room for (default: the model's maximum)");
  options.add("--prefill-chunk", flags->prefill_chunk, "N", whole_number(1, 65536),
              "Maximum prompt tokens per step");
  options.add("--weights", flags->weights, "TYPE", weight_type(), "Type of the weights in memory");
  options.add_choice("--kv-type", flags->kv_type, "TYPE", {"auto", "f32", "bf16", "int8"},
                     "Type of the KV cache");
  command->add_flag("--json", flags->json, "One JSON object");
  add_output_option(*command, flags->output);
  command->footer(
      "Loads no weights and needs no mpirun. The workspace is for ranks that all run on this machine.\n"
      "Examples:\n"
      "  tp-infer inspect --model DIR --ranks 8 --context 4096\n"
      "  tp-infer inspect --model bench/shapes/llama-1b.json --ranks 4 --json");
  command->callback(on_first_rank(*command, [flags] { inspect(*flags); }));
}

}  // namespace tp
