#include "runtime/engine/rank_zero.h"

#include "runtime/modes/beam_searches.h"
#include "runtime/modes/unmasker.h"
#include "runtime/store/files/cache_parts.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace tp {
namespace {

bool has_global_tokens(const ModelSpec& spec) {
  return std::ranges::any_of(spec.blocks, [](const BlockSpec& block) {
    const auto* attention = std::get_if<AttentionSpec>(&block.attention);
    return attention != nullptr && attention->global_projections;
  });
}

bool has_indexers(const ModelSpec& spec) {
  const auto chooses = [](const BlockSpec& block) { return block_indexer_of(block) != nullptr; };
  return max_chosen(spec) != 0 || std::ranges::any_of(spec.blocks, chooses);
}

LeaderOptions leader_options(const EnginePlan& plan, const EngineInfo& info) {
  const ModelSpec spec = plan.spec();
  return {.engine = plan.options,
          .vocab_size = plan.config.vocab_size,
          .eos_token_ids = info.eos_token_ids,
          .generation = info.generation,
          .kind = info.kind,
          .bidirectional = spec.bidirectional,
          .recomputes = spec.recomputes,
          .has_indexers = has_indexers(spec),
          .token_types = spec.token_types,
          .has_global_tokens = has_global_tokens(spec),
          .diffusion = spec.diffusion,
          .cache_blocks = plan.cache_blocks,
          .cache = plan.cache_shape(plan.cache_groups(spec)),
          .step_tokens = plan.step_limits().tokens,
          .generates = !takes_whole_sequences(spec),
          .adapters = info.adapters};
}

StoreSettings store_settings(const EnginePlan& plan, const Sha256Digest& fingerprint, std::size_t ranks) {
  const ModelSpec spec = plan.spec();
  StoreSettings settings{.fingerprint = fingerprint,
                         .min_tokens = plan.options.kv_store_min,
                         .blocks_per_run = blocks_per_run(plan.options.block_size),
                         .has_widest_window = {},
                         .widest_window = widest_window(spec),
                         .ranks = ranks};
  for (const CacheWindow& window : plan.cache_groups(spec).windows)
    settings.has_widest_window.push_back(window == settings.widest_window);
  return settings;
}

std::unique_ptr<Mode> mode_of(Leader& leader, const LeaderOptions& options, const Tokenizer* tokenizer) {
  if (options.diffusion) return std::make_unique<Unmasker>(leader, options, tokenizer);
  return std::make_unique<BeamSearches>(leader, options, tokenizer);
}

}  // namespace

RankZero::RankZero(std::optional<Tokenizer> loaded, const EnginePlan& plan, const EngineInfo& info,
                   std::unique_ptr<Speculator> speculator)
    : RankZero(std::move(loaded), leader_options(plan, info), std::move(speculator)) {}

RankZero::RankZero(std::optional<Tokenizer> loaded, const LeaderOptions& options,
                   std::unique_ptr<Speculator> speculator)
    : tokenizer(std::move(loaded)),
      leader(options, tokenizer ? &*tokenizer : nullptr, std::move(speculator)),
      mode(mode_of(leader, options, tokenizer ? &*tokenizer : nullptr)) {}

void RankZero::open_store(const EnginePlan& plan, const Sha256Digest& fingerprint, std::size_t ranks) {
  leader.open_store(store_settings(plan, fingerprint, ranks));
}

RequestId RankZero::submit(Request request, EventSink sink) {
  return mode->answers(request) ? mode->submit(std::move(request), std::move(sink))
                                : leader.submit(std::move(request), std::move(sink));
}

void RankZero::cancel(RequestId request) {
  if (!mode->cancel(request)) leader.cancel(request);
}

LeaderStatus RankZero::status() const {
  LeaderStatus status = leader.status();
  mode->add_to(status);
  return status;
}

}  // namespace tp
