#include "runtime/setup/engine_setup.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/config/favor_spec.h"
#include "model/files/has_file.h"
#include "model/files/printable.h"
#include "model/kernels/attention_scratch.h"
#include "model/weights/adapters/adapter_form.h"
#include "model/weights/adapters/merged_checkpoint.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/synthetic/synthetic_blocks.h"
#include "model/weights/synthetic/synthetic_scaled.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "runtime/cache/state_slots.h"
#include "runtime/setup/drafter_plan.h"
#include "runtime/setup/task_config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <fmt/ranges.h>

namespace tp {
namespace {

// Tokens of the texts with which LLaDA was trained.
constexpr std::size_t kUsualCanvas = 4096;
constexpr std::size_t kLargestBlock = 1024;

void check_options(const EngineOptions& options) {
  require<ConfigError>(options.prefill_chunk >= 1 && options.prefill_chunk <= 65536,
                       "`prefill_chunk` must be in 1..65536 tokens, found {}", options.prefill_chunk);
  require<ConfigError>(options.max_sequences >= 1 && options.max_sequences <= 4096,
                       "`max_sequences` must be in 1..4096, found {}", options.max_sequences);
  const double step_ms = options.step_time.count();
  require<ConfigError>(std::isfinite(step_ms) && step_ms >= 0.0,
                       "`step_time` must be a number of milliseconds, or 0 for no limit, found {}", step_ms);
  require<ConfigError>(options.block_size >= 1 && options.block_size <= kLargestBlock,
                       "`block_size` must be in 1..{} tokens, found {}", kLargestBlock, options.block_size);
  require<ConfigError>(options.favor_features <= 65536, "`favor_features` must be at most 65536, found {}",
                       options.favor_features);
  require<ConfigError>(!options.same_bits || options.wire == WireType::f32,
                       "`same_bits` needs the `wire` type f32, found {}, which rounds sums between hosts, so "
                       "that results depend on the hosts; leave one of the two out",
                       name_of(options.wire));
  require<ConfigError>(options.speculation.tokens >= 1 && options.speculation.tokens <= kMaxDraftTokens,
                       "`speculation` must try 1..{} tokens ahead, found {}", kMaxDraftTokens,
                       options.speculation.tokens);
  constexpr std::size_t kMaxRemembered = std::size_t{1} << 30;  // each half has 32-bit indices
  const std::size_t remembered = options.speculation.draft_history;
  require<ConfigError>(
      remembered != 1 && remembered <= kMaxRemembered,
      "cannot remember earlier answers: expected a `draft_history` of 0, or of 2 to {} tokens, found {}; "
      "change it, or leave it out",
      kMaxRemembered, remembered);
  const DraftKind drafts = options.speculation.drafts;
  require<ConfigError>(
      remembered == 0 || drafts == DraftKind::ngram || drafts == DraftKind::automatic,
      "cannot draft from earlier answers: expected `speculation` with ngram or auto, found a `draft_history` "
      "of {} tokens with another kind or none; choose ngram or auto, or leave `draft_history` out",
      remembered);
  require<ConfigError>(
      !options.weights || options.synthetic || is_convertible(*options.weights),
      "`weights` must be a type to which weights can be converted, f32 to int4, found {}; files "
      "that store such weights keep them without it",
      name_of(options.weights.value_or(WeightType::f32)));
}

void check_adapters(const EngineOptions& options) {
  constexpr std::size_t kMax = 1024;
  std::set<std::string> names;
  for (const AdapterOptions& adapter : options.adapters) {
    const bool is_plain = !adapter.name.empty() && printable(adapter.name) == adapter.name;
    require<ConfigError>(is_plain && names.insert(adapter.name).second,
                         "cannot name an adapter \"{}\": expected a unique name of at most 160 printable "
                         "characters; choose another one",
                         printable(adapter.name));
    require<ConfigError>(std::isfinite(adapter.scale),
                         "the adapter {} has the scale {}, expected a number; leave it out", adapter.name,
                         adapter.scale);
  }
  require<ConfigError>(options.adapters.size() <= kMax, "cannot open {} adapters: expected at most {}",
                       options.adapters.size(), kMax);
  require<ConfigError>(
      options.adapters.empty() || !options.synthetic,
      "cannot use adapters with generated weights: `synthetic` has no layers with names; leave one "
      "of the two out");
  require<ConfigError>(
      options.default_adapter.value_or("").empty() || !names.empty(),
      "there is no adapter {}: expected one of `adapters`, found none; open it with `adapters`",
      printable(options.default_adapter.value_or("")));
  require<ConfigError>(
      options.default_adapter.value_or("").empty() || names.contains(*options.default_adapter),
      "there is no adapter {}: expected one of `adapters` ({}); choose another one",
      printable(options.default_adapter.value_or("")), fmt::join(names, ", "));
}

void check_split(const std::vector<double>& split, std::size_t ranks) {
  if (split.empty()) return;
  const auto is_share = [](double share) { return std::isfinite(share) && share > 0.0; };
  require<ConfigError>(split.size() == ranks && std::ranges::all_of(split, is_share),
                       "cannot divide the model as asked: `split` must have a number > 0 for each of the {} "
                       "ranks, found {}; give one number per rank",
                       ranks, fmt::join(split, ","));
}

// Checks that the model's kind allows these options.
void check_model(const EngineOptions& options, const ModelSpec& spec, const std::string& architecture) {
  require<ConfigError>(options.pipeline == 1 || !(takes_whole_sequences(spec) || spec.encoder),
                       "cannot divide {} into {} pipeline stages: it needs a whole step for each output; "
                       "leave `pipeline` out, and the ranks divide every layer",
                       spec.bidirectional || spec.encoder ? "an encoder" : architecture, options.pipeline);
  require<ConfigError>(
      options.pipeline == 1 || !spec.self_conditioning,
      "cannot divide {} into {} pipeline stages: its first layer reads what the last layer has "
      "predicted; leave `pipeline` out, and the ranks divide every layer",
      architecture, options.pipeline);
  require<ConfigError>(options.speculation.drafts == DraftKind::none ||
                           !(takes_whole_sequences(spec) || spec.encoder || spec.diffusion),
                       "cannot draft tokens of {}: `speculation` needs a model that generates one token "
                       "after another from a cache; leave it out",
                       architecture);
  const bool has_global_projections = std::ranges::any_of(spec.blocks, [](const BlockSpec& block) {
    const auto* attention = std::get_if<AttentionSpec>(&block.attention);
    return attention != nullptr && attention->global_projections;
  });
  require<ConfigError>(
      options.adapters.empty() || !has_global_projections,
      "cannot use adapters with {}: global tokens have projections of their own; merge the adapter "
      "into the model with PEFT",
      architecture);
  require<ConfigError>(options.unmask_cache == UnmaskCache::exact || (spec.diffusion && spec.bidirectional),
                       "cannot approximate by `unmask_cache` {}: expected a diffusion language model that "
                       "computes the whole text "
                       "in every pass (LLaDA, Dream), found {}{}; leave it out",
                       name_of(options.unmask_cache), architecture,
                       spec.diffusion ? ", whose finished blocks stay in the cache, which is exact" : "");
}

// Checks that the model's prompts can be stored.
void check_store(const EngineOptions& options, const ModelSpec& spec, const std::string& architecture) {
  if (options.kv_store.empty()) return;
  require<ConfigError>(!takes_whole_sequences(spec) && !spec.encoder,
                       "cannot store prompts of {}: `kv_store` needs a model that generates one token after "
                       "another from a cache; leave it out",
                       architecture);
  require<ConfigError>(options.pipeline == 1 && options.pretend_ranks == 0,
                       "cannot store prompts: `kv_store` needs a `pipeline` of one stage without "
                       "`pretend_ranks`, found {} stages and {} pretended ranks; leave one of them out",
                       options.pipeline, options.pretend_ranks);
}

// The number of ranks per stage, which may be pretended.
std::size_t ranks_of_stage(const EngineOptions& options, std::size_t ranks) {
  require<ConfigError>(
      options.pipeline >= 1 && ranks % options.pipeline == 0,
      "cannot divide {} ranks into {} pipeline stages: `pipeline` must divide the ranks evenly; "
      "choose another number, or start other ranks",
      ranks, options.pipeline);
  const std::size_t of_stage = ranks / options.pipeline;
  require<ConfigError>(options.pretend_ranks == 0 || options.pretend_ranks >= of_stage,
                       "cannot pretend that there are {} ranks: `pretend_ranks` must be at least the {} that "
                       "there are",
                       options.pretend_ranks, of_stage);
  return options.pretend_ranks != 0 ? options.pretend_ranks : of_stage;
}

// Replaces the lengths and sizes that the model limits, or that are 0.
void choose_sizes(EnginePlan& plan, const ModelSpec& spec) {
  EngineOptions& options = plan.options;
  std::size_t longest = spec.max_position_embeddings;
  // Every pass computes the whole text, so the length that config.json allows may not fit into memory.
  if (spec.diffusion && spec.bidirectional && options.max_length == 0)
    longest = std::min(longest, kUsualCanvas);
  options.max_length = options.max_length == 0 ? longest : std::min(longest, options.max_length);
  // Cached prefixes consist of whole cache blocks, which are therefore as large as the model's blocks.
  const bool has_canvas = spec.diffusion && spec.diffusion->canvas;
  if (spec.diffusion && !has_canvas && spec.diffusion->block_length % options.block_size == 0 &&
      spec.diffusion->block_length > 0)
    options.block_size = std::min<std::size_t>(spec.diffusion->block_length, kLargestBlock);
  // A step must hold the longest sequence as a whole.
  if (takes_whole_sequences(spec))
    options.prefill_chunk = std::max(options.prefill_chunk, options.max_length);
  // A step must hold a canvas as a whole.
  if (has_canvas) options.prefill_chunk = std::max(options.prefill_chunk, spec.diffusion->block_length);
  // A step must hold the longest input as a whole, in addition to other sequences' generated tokens.
  const std::size_t input = plan.longest_sequence() - options.max_length;
  if (plan.is_seq2seq())
    options.prefill_chunk = std::max(options.prefill_chunk, input + options.max_sequences);
  // A model that takes whole sequences needs each of them for only one step or a few steps, and computes as
  // many at once as fit.
  if (options.cache_tokens == 0 && takes_whole_sequences(spec))
    options.cache_tokens = 2 * plan.step_limits().tokens;
}

}  // namespace

std::optional<WeightType> EnginePlan::weights() const {
  return options.weights && is_convertible(*options.weights) ? options.weights : std::nullopt;
}

std::optional<WeightType> EnginePlan::synthetic_blocks() const {
  return weights() ? std::nullopt : options.weights;
}

ModelSpec EnginePlan::spec() const {
  ModelSpec spec = next_token ? make_next_token_spec(config) : make_spec(config);
  spec.max_position_embeddings = options.max_length;
  spec.same_bits = options.same_bits;
  if (options.favor_features != 0) approximate_attention(spec, options.favor_features);
  spec.keeps_sequences = options.unmask_cache != UnmaskCache::exact;
  if (divides_tables) divide_hash_tables(spec);
  return spec;
}

StepLimits EnginePlan::step_limits() const {
  const std::size_t tokens = std::max(options.prefill_chunk, options.max_sequences);
  return {.tokens = tokens,
          .outputs = tokens,
          .kv_type = kv_type(),
          .block_size = options.block_size,
          .max_blocks = (longest_sequence() + options.block_size - 1) / options.block_size,
          .overlaps = overlaps};
}

bool EnginePlan::is_seq2seq() const { return kind_of(config) == ModelKind::seq2seq; }

std::size_t EnginePlan::longest_sequence() const {
  const std::size_t text = options.max_length;
  if (!is_seq2seq()) return text;
  return (text + options.block_size - 1) / options.block_size * options.block_size + text;
}

// Blocks are laid out by host if the ranks of a host keep one copy.
CacheGroups EnginePlan::cache_groups(const ModelSpec& spec) const {
  if (host_of.empty()) return CacheGroups::of(spec, ranks);
  std::size_t max = 1;  // hosts of a stage
  for (std::size_t first = 0; first < host_of.size(); first += ranks) {
    std::vector<std::uint64_t> hosts(host_of.begin() + static_cast<std::ptrdiff_t>(first),
                                     host_of.begin() + static_cast<std::ptrdiff_t>(first + ranks));
    std::ranges::sort(hosts);
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    max = std::max(max, hosts.size());
  }
  return CacheGroups::of(spec, max);
}

std::vector<std::size_t> EnginePlan::cache_ranks(std::size_t stage, TpRank tp) const {
  std::vector<std::size_t> together;
  const std::span<const std::uint64_t> hosts =
      host_of.empty() ? host_of : std::span(host_of).subspan(stage * ranks, ranks);
  const auto on_same_host = [&](std::size_t other) {
    if (hosts.empty()) return other == tp.rank;
    if (tp.size == ranks) return hosts[other] == hosts[tp.rank];
    std::ptrdiff_t max = 0;
    for (const std::uint64_t host : hosts) max = std::max(max, std::ranges::count(hosts, host));
    return other / static_cast<std::size_t>(max) == tp.rank / static_cast<std::size_t>(max);
  };
  for (std::size_t other = 0; other < tp.size; ++other) {
    if (on_same_host(other)) together.push_back(other);
  }
  return together;
}

CacheSlices EnginePlan::cache_slices(const ModelSpec& spec, Stage stage, TpRank tp,
                                     std::size_t blocks) const {
  return CacheSlices::of(spec, stage.layers(spec.blocks.size()), tp, cache_ranks(stage.index, tp), blocks);
}

CacheShape EnginePlan::cache_shape(const CacheGroups& groups) const {
  return {.block_size = options.block_size,
          .chunk = options.prefill_chunk,
          .windows = groups.windows,
          .states = groups.has_states ? kStatesPerSequence * options.max_sequences : 0,
          .owners = {cache_owners,
                     kernels::blocks_per_split(kernels::KvLayout{.block_size = options.block_size})}};
}

EnginePlan make_plan(const EngineOptions& options, std::size_t ranks) {
  check_options(options);
  check_adapters(options);
  require<CheckpointError>(
      has_file(options.model),
      "cannot open the model \"{}\": expected a folder, a GGUF file or, with `synthetic`, a config.json, "
      "found none; check the path on every "
      "host",
      options.model.string());
  EnginePlan plan{.options = options, .config = load_config_for(options.model, options.task)};
  const ModelSpec spec = make_spec(plan.config);
  check_model(options, spec, plan.config.architecture);
  check_store(options, spec, plan.config.architecture);
  plan.ranks = ranks_of_stage(options, ranks);
  check_split(options.split, plan.ranks);
  Model::shape_of(spec, SyntheticWeights(), plan.tp(0), {});  // throws if there are too many ranks
  require<ConfigError>(
      options.pipeline <= spec.blocks.size(),
      "cannot divide the layers into {} stages: `pipeline` must be at most the {} layers that "
      "the model has",
      options.pipeline, spec.blocks.size());
  if (!options.kv_type)
    plan.options.kv_type =
        default_kv_type(usual_weight_type(plan, SyntheticWeights(plan.config.torch_dtype)));
  choose_sizes(plan, spec);
  plan.spec();  // throws if attention cannot be approximated as asked
  return plan;
}

void share_caches(EnginePlan& plan, std::vector<std::uint64_t> host_of) {
  constexpr std::size_t kMaxOwners = 64;
  plan.host_of.clear();
  plan.cache_owners = 1;
  const ModelSpec spec = plan.spec();
  if (!plan.options.kv_slices || plan.pretends() || !can_share_cache(spec)) return;
  plan.host_of = std::move(host_of);
  bool saves_memory = false;
  for (std::size_t i = 0; i < plan.host_of.size(); ++i) {
    const Stage stage{i / plan.ranks, plan.options.pipeline};
    const CacheSlices slices = plan.cache_slices(spec, stage, plan.tp(i % plan.ranks), kNominalBlocks);
    for (const HostHeads& layer : slices.layers) {
      saves_memory = saves_memory || layer.are_shared();
      for (std::size_t head = 0; head < layer.heads(); ++head)
        plan.cache_owners = std::min(kMaxOwners, std::lcm(plan.cache_owners, layer.owners_of(head)));
    }
  }
  if (saves_memory) return;
  plan.host_of.clear();
  plan.cache_owners = 1;
}

WeightType usual_weight_type(const EnginePlan& plan, const WeightSource& source) {
  if (const auto type = plan.weights()) return *type;
  const std::vector<TypeUse> stored = source.types();
  const bool known = !stored.empty() && stored.front().held_as;
  return known ? *stored.front().held_as : lossless_type(plan.config.torch_dtype);
}

namespace {

std::unique_ptr<WeightSource> open_tensors(const EnginePlan& plan) {
  if (const auto type = plan.synthetic_blocks()) {
    if (kernels::is_scaled(*type)) return std::make_unique<SyntheticScaled>(*type);
    return std::make_unique<SyntheticBlocks>(*type);
  }
  if (plan.options.synthetic) return std::make_unique<SyntheticWeights>(plan.config.torch_dtype);
  if (plan.target) return open_drafter(plan);
  return open_checkpoint(plan.options.model, plan.config);
}

}  // namespace

// A multi-token prediction layer drafts without adapters: the model checks its draft tokens anyway.
std::unique_ptr<WeightSource> with_adapters(const EnginePlan& plan, std::unique_ptr<WeightSource> weights) {
  if (plan.options.adapters.empty() || plan.next_token) return weights;
  const Family& family = family_of(plan.config.architecture);
  require_form_of_model(plan.options.adapters, plan.options.model, family.gguf);
  const std::string& architecture = family.gguf.architecture_of(plan.config);
  const ModelSpec spec = plan.spec();
  auto adapters = std::make_shared<Adapters>(plan.options.adapters, spec, architecture);
  if (std::optional<Adapter> replaced = adapters->take_replaced(spec.names.as_stored_in(*weights)))
    weights = std::make_unique<MergedCheckpoint>(std::move(weights), Adapters({*std::move(replaced)}), spec);
  weights->use_adapters(std::move(adapters));
  return weights;
}

std::unique_ptr<WeightSource> open_weights(const EnginePlan& plan) {
  return with_adapters(plan, open_tensors(plan));
}

}  // namespace tp
