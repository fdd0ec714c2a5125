#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/options/engine_flags.h"
#include "launch/options/model_path.h"
#include "launch/plan/inspection.h"
#include "launch/ranks/on_first_rank.h"
#include "model/layers/model.h"
#include "model/tokenizer/tokenizer_files.h"
#include "parallel/machine/processors.h"
#include "runtime/plan/rank_shape.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"
#include "tp/engine.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tp {
namespace {

struct InspectFlags {
  EngineOptions options{};
  std::size_t ranks = 1;
  std::size_t context = 0;
  bool json = false;
  std::string output;
};

// Returns the attention of the first layer that has one, or the first layer's.
const AttentionPartSpec& shown_attention(const ModelSpec& spec) {
  const auto found = std::ranges::find_if(spec.blocks, keeps_keys);
  return (found == spec.blocks.end() ? spec.blocks.front() : *found).attention;
}

// Returns the width of the first layer with an MLP or experts, or 0.
std::size_t shown_width(const ModelSpec& spec) {
  for (const BlockSpec& block : spec.blocks) {
    if (const std::size_t width = intermediate_size(block.feed_forward); width != 0) return width;
  }
  return 0;
}

Range columns_of(const ModelSpec& spec, std::size_t total, TpRank tp) {
  return shard_columns(total, tp, leaf_of(total, leaf_heads(spec)));
}

CacheUse cache_use(const EnginePlan& plan, const CacheGroups& groups, std::size_t context) {
  const CacheShape shape = plan.cache_shape(groups);
  const ModelSpec spec = plan.spec();
  CacheUse use{.tokens = context,
               .recurrent_layers = static_cast<std::size_t>(std::ranges::count_if(spec.blocks, keeps_state)),
               .states = shape.states,
               .blocks = shape.blocks_for(context)};
  for (const std::optional<CacheGroups::Place>& place : groups.places)
    use.windowed_layers += place && groups.windows[place->group] ? 1 : 0;
  return use;
}

// Bytes of the first rank's cache for this many tokens.
double cache_bytes(const EnginePlan& plan, const ModelSpec& spec, const WeightSource& weights,
                   std::size_t tokens) {
  const Footprint footprint(spec, plan, weights);
  const std::size_t blocks = plan.cache_shape(footprint.groups()).blocks_for(tokens);
  return static_cast<double>(blocks * footprint.of(plan.tp(0)).cache_block);
}

// see CacheUse::without_windows
double cost_without_windows(const EnginePlan& plan, ModelSpec spec, const WeightSource& weights,
                            std::size_t tokens) {
  const double with_windows = cache_bytes(plan, spec, weights, tokens);
  for (BlockSpec& block : spec.blocks) {
    if (auto* const attention = std::get_if<AttentionSpec>(&block.attention))
      attention->pattern = {.causal = attention->pattern.causal};
  }
  return cache_bytes(plan, spec, weights, tokens) / with_windows;
}

RankShare share_of(const ModelSpec& spec, const Footprint& footprint, std::size_t cache_blocks, TpRank tp) {
  const MemoryNeed need = footprint.of(tp);
  return {.heads = owned_heads(shown_attention(spec), tp),
          .columns = columns_of(spec, shown_width(spec), tp),
          .vocab = shard_columns(spec.vocab_size, tp),
          .weight_bytes = need.weights - need.adapters,
          .cache_bytes = cache_blocks * need.cache_block,
          .state_bytes = need.states,
          .workspace_bytes = need.workspace,
          .adapter_bytes = need.adapters,
          .table_bytes = need.tables};
}

// Plans like the engine, with all ranks on this machine.
std::vector<RankShare> shares_of(const EnginePlan& plan, const ModelSpec& spec, const WeightSource& weights,
                                 std::size_t cache_blocks, std::size_t ranks) {
  set_threads(default_threads_of(ranks));
  const Footprint footprint(spec, plan, weights, cache_blocks);
  std::vector<RankShare> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shares.push_back(share_of(spec, footprint, cache_blocks, plan.tp(rank)));
  return shares;
}

void inspect(InspectFlags flags) {
  const std::filesystem::path model = flags.options.model = find_model_to_describe(flags.options.model);
  const DescribedModel described(flags.options, flags.ranks);
  const EnginePlan& plan = described.plan();
  const ModelSpec& spec = described.spec();
  const std::size_t context = flags.context != 0 ? flags.context : spec.max_position_embeddings;
  const std::size_t longest = spec.max_position_embeddings;
  if (longest != 0 && context > longest) {
    print_message(
        fmt::format("tp-infer: notice: sequences of this model have at most {0} tokens, found --context "
                    "{1}; give --context up to {0}",
                    longest, context));
  }
  CacheUse cache = cache_use(plan, plan.cache_groups(spec), context);
  if (cache.windowed_layers != 0)
    cache.without_windows = cost_without_windows(plan, spec, described.weights(), context);
  const Inspection found{.model = described,
                         .parameters = {count_parameters(spec), count_active_parameters(spec)},
                         .unusable = find_tokenizer_flaws(model).unsupported,
                         .cache = cache,
                         .shares = shares_of(plan, spec, described.weights(), cache.blocks, flags.ranks)};
  ResultOutput output(flags.output);
  output.write(flags.json ? inspection_json(found) : inspection_text(found));
  output.finish();
}

}  // namespace

// `tp-infer inspect`: what a model is and what each rank would own. Loads no weights and starts no MPI.
void add_inspect_command(CLI::App& app, int& /*status*/) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "Show a model's shape and what each rank would own");
  const OptionGroup options(*command);
  add_described_options(*command, flags->options);
  options.add("--ranks", flags->ranks, "N", whole_number(1, 4096), "Ranks to plan for");
  options.add("--context", flags->context, "N", whole_number(1),
              "Tokens of the sequence that the KV cache has room for (default: the model's maximum)");
  command->add_flag("--json", flags->json, "One JSON object");
  add_output_option(*command, flags->output);
  command->footer(
      "Loads no weights and needs no mpirun. The workspace is for ranks that all run on this machine.\n"
      "Examples:\n"
      "  tp-infer inspect --model DIR --ranks 8 --context 4096\n"
      "  tp-infer inspect --model DIR --ranks 8 --lora NAME=ADAPTER\n"
      "  tp-infer inspect --model bench/shapes/llama-1b.json --ranks 4 --json");
  command->callback(on_first_rank(*command, [flags] { inspect(*flags); }));
}

}  // namespace tp
