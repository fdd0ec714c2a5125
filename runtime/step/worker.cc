#include "runtime/step/worker.h"

#include "model/config/architectures.h"
#include "model/kernels/matmul.h"
#include "model/layers/model.h"
#include "model/memory/kv_cache.h"
#include "model/memory/workspace.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/two_phase_reader.h"
#include "parallel/exchange/agreement.h"
#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/available_memory.h"
#include "parallel/machine/stopwatch.h"
#include "parallel/machine/storage_reads.h"
#include "runtime/setup/memory_plan.h"
#include "runtime/setup/missing_kernels.h"
#include "runtime/setup/model_identity.h"
#include "runtime/setup/packed_weights.h"
#include "runtime/setup/plan_agreement.h"
#include "runtime/setup/rank_report.h"
#include "runtime/step/draft_model.h"
#include "runtime/step/stage_tensors.h"
#include "runtime/store/prompt_ids.h"
#include "runtime/store/run_index.h"
#include "runtime/store/store_fingerprint.h"
#include "runtime/store/store_limit.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace tp {

// The weights, and the memory that steps use.
struct Worker::Loaded {
  Model model;
  KvCache cache;
  Workspace workspace;
};

namespace {

EngineInfo describe(const EnginePlan& plan, const ModelSpec& spec, const WeightSource& source) {
  EngineInfo info;
  info.options = plan.options;
  info.config = plan.config;
  info.kind = kind_of(plan.config);
  info.parameters = count_parameters(spec);
  info.weights = usual_weight_type(plan, source);
  if (!plan.weights()) info.rounded = text_of_rounded(source.types());
  if (source.adapters() != nullptr) {
    for (const Adapter& adapter : source.adapters()->all())
      info.adapters.push_back({adapter.name, adapter.identity, adapter.is_exclusive});
  }
  info.state_size = state_size(spec);
  info.stored_bytes = source.stored_bytes();
  info.bytes_used = source.bytes_read();
  const CacheShape cache = plan.cache_shape(plan.cache_groups(spec));
  info.options.cache_tokens =
      cache.tokens_in(plan.cache_blocks, plan.options.max_sequences, plan.longest_sequence());
  return info;
}

// Sizes the cache before anything large is allocated, because Linux kills processes when memory runs out.
// Returns CachePlan's notice on rank 0.
std::string fit_into_memory(Communicator& comm, Pipeline& pipeline, EnginePlan& plan, const ModelSpec& spec,
                            const WeightSource& source, const WorkerOptions& options) {
  if (options.cache_is_planned) return {};
  const Footprint footprint(spec, plan, source);
  RankMemory own;
  fail_together(comm, [&] {
    own = describe_memory(footprint, plan.tp(pipeline.tensor().rank()), pipeline.stage(), options.beside);
  });
  const std::vector<RankMemory> ranks = gather_values(comm, own);
  CachePlan cache;
  fail_together(comm, [&] {
    if (comm.is_root())
      cache = plan_cache(plan, footprint, ranks, comm.placement(), plan.options.cache_tokens);
  });
  broadcast_object(comm, cache.blocks);
  plan.cache_blocks = cache.blocks;
  return std::move(cache.notice);
}

// Runs `load`, in which only the ranks of this stage communicate. After an error, all ranks of the stage must
// stop loading before the other stages learn of the error.
void load_in_stage(Communicator& tensor, const std::function<void()>& load) {
  std::optional<PackedCacheError> damage;
  fail_among_some([&] {
    fail_together(tensor, [&] {
      try {
        load();
      } catch (const PackedCacheError& error) {
        damage = error;
      }
    });
  });
  if (damage) throw PackedCacheError(*damage);
}

// Whether the ranks use a packed cache. Throws if only some of them do. Collective.
bool use_packed_cache(Communicator& comm, const EnginePlan& plan) {
  const bool own = !plan.options.packed_cache.empty();
  fail_together(comm, [&] {
    require_agreement(comm, own ? 1 : 0, "whether there is a packed cache",
                      "give every rank a folder for it, or none", yes_or_no);
  });
  return own;
}

// Each rank's range of token ids.
std::vector<Range> vocab_shards(const EnginePlan& plan, const Model& model, std::size_t ranks) {
  std::vector<Range> shards;
  const DraftVocabulary* const draft = model.draft_vocabulary();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shards.push_back(draft != nullptr ? draft->tokens_of(plan.tp(rank))
                                      : shard_columns(plan.config.vocab_size, plan.tp(rank)));
  return shards;
}

// Whether the ranks of a stage read weights in two phases. Collective over all stages.
bool agree_on_two_phases(Communicator& comm, const Communicator& tensor) {
  // Number of hosts in the stage that spans the most hosts.
  const std::int64_t hosts = max_over_ranks(comm, static_cast<std::int64_t>(tensor.placement().hosts.size()));
  bool in_two_phases = false;
  fail_together(comm, [&] { in_two_phases = reads_in_two_phases(static_cast<std::size_t>(hosts)); });
  fail_together(comm, [&] {
    require_agreement(comm, in_two_phases ? 1 : 0, "whether weights are read in two phases",
                      "set TP_LOADING alike on every host", yes_or_no);
  });
  return in_two_phases;
}

// Runs `load`, which fills `packed` or reads from it if the ranks use a packed cache. Collective.
PackedWeights load_packed(Communicator& comm, const EnginePlan& plan, PackedCacheIdentity packed_as,
                          ModelIdentity& identity, std::optional<PackedCache>& packed,
                          const std::function<void()>& load) {
  PackedWeights weights;
  if (use_packed_cache(comm, plan)) {
    packed_as.source = identity.read();
    fail_together(comm, [&] { packed.emplace(plan.options.packed_cache, packed_as); });
    weights = load_through_cache(comm, *packed, [&] {
      load();
      identity.require_unchanged();
    });
  } else {
    fail_together(comm, load);
  }
  packed.reset();
  return weights;
}

}  // namespace

std::unique_ptr<Worker::Loaded> Worker::load(EnginePlan& plan, const WorkerOptions& options,
                                             const std::function<void(double)>& progress) {
  Communicator& tensor = pipeline_.tensor();
  fail_together(comm_, [&] { tensor.sums().prepare_wire(plan.options.wire); });
  const Stopwatch watch;
  const std::optional<std::uint64_t> read_before = bytes_from_storage();
  const TwoPhaseReader columns(tensor);
  ModelSpec spec;
  fail_together(comm_, [&] { spec = plan.spec(); });
  std::unique_ptr<WeightSource> source;
  fail_together(comm_, [&] { source = open_weights(plan); });
  agree_on_adapters(comm_, plan, *source);
  ModelIdentity identity(comm_, *source, plan.options.model.string());
  const bool in_two_phases = agree_on_two_phases(comm_, tensor);
  if (in_two_phases) source->read_exactly(columns);
  std::string cache_notice = fit_into_memory(comm_, pipeline_, plan, spec, *source, options);
  fail_together(comm_, [&] { kernels::prepare_matmul(plan.options.same_bits); });

  std::optional<Model> model;
  PackedWeights packed =
      load_weights(plan, spec, *source, identity, in_two_phases, options.others, progress, model);
  if (identity.has_copies() || !plan.options.kv_store.empty()) identity_ = identity.read();
  HostCache host = share_cache(*model, plan, spec);
  std::unique_ptr<Loaded> loaded;
  fail_together(comm_, [&] { loaded = with_memory(std::move(*model), std::move(host), plan, spec); });

  info_ = describe(plan, spec, *source);
  info_.load_time = std::chrono::duration<double>(watch.seconds());
  if (read_before) info_.bytes_from_storage = bytes_from_storage().value_or(*read_before) - *read_before;
  info_.cache_notice = std::move(cache_notice);
  if (!plan.not_shared_because.empty())
    info_.cache_notice += fmt::format(
        "{}each rank keeps its own copy of the KV cache, because ranks of a host cannot share memory: {}",
        info_.cache_notice.empty() ? "" : "; ", plan.not_shared_because);
  info_.kernels_notice = missing_kernels(comm_);
  info_.from_packed_cache = packed.were_read;
  info_.packed_cache_notice = std::move(packed.notice);
  describe_own_part(*loaded, spec, *source);
  return loaded;
}

PackedWeights Worker::load_weights(const EnginePlan& plan, const ModelSpec& spec, const WeightSource& source,
                                   ModelIdentity& identity, bool in_two_phases, const VocabTables& others,
                                   const std::function<void(double)>& progress, std::optional<Model>& model) {
  Communicator& tensor = pipeline_.tensor();
  const Stage stage = pipeline_.stage();
  const TpRank tp = plan.tp(tensor.rank());
  const auto share =
      static_cast<double>(count_parameters(spec)) / static_cast<double>(plan.options.pipeline * plan.ranks);
  const auto on_load = [&](std::size_t elements) {
    if (progress) progress(std::min(1.0, static_cast<double>(elements) / share));
  };
  std::optional<PackedCache> packed;
  const auto load = [&] {
    model.reset();
    model.emplace(spec, source, tp, plan.weights(), on_load, packed ? &*packed : nullptr, stage, others);
  };
  const auto load_together = [&] {
    if (in_two_phases && !stage.is_whole())
      load_in_stage(tensor, load);
    else
      load();
  };
  std::string path;
  fail_together(comm_, [&] { path = std::filesystem::weakly_canonical(plan.options.model).string(); });
  const PackedCacheIdentity packed_as{path, {}, plan.weights(), leaf_heads(spec), tp, stage};
  return load_packed(comm_, plan, packed_as, identity, packed, load_together);
}

namespace {

// The cache groups of a stage.
CacheGroups groups_of(Stage stage, const CacheGroups& all, const ModelSpec& spec) {
  return stage.is_whole() ? all : all.with_layers(stage.layers(spec.blocks.size()));
}

}  // namespace

// Maps the cache of this host, unless this rank keeps a private cache. Collective.
HostCache Worker::share_cache(const Model& model, const EnginePlan& plan, const ModelSpec& spec) {
  const Stage stage = pipeline_.stage();
  const TpRank tp = plan.tp(pipeline_.tensor().rank());
  const std::vector<std::size_t> ranks = plan.cache_ranks(stage.index, tp);
  if (ranks.size() < 2) {
    fail_together(comm_, [] {});
    return {};
  }
  HostCache host{.slices = plan.cache_slices(spec, stage, tp, plan.cache_blocks),
                 .max_blocks = plan.step_limits().max_blocks};
  const std::size_t bytes =
      host.region_bytes(model.kv_layouts(plan.kv_type(), plan.options.block_size),
                        groups_of(stage, plan.cache_groups(spec), spec), plan.cache_blocks);
  std::string why;
  host.region = HostRegion::create(pipeline_.tensor(), ranks, bytes, why);
  fail_together(comm_, [&] {
    require<ConfigError>(
        why.empty(),
        "cannot share the KV cache of the {} ranks of a host: expected shared memory, found: {}; use "
        "`kv_slices` false (--kv-slices off)",
        ranks.size(), why);
  });
  return host;
}

// Adds a cache and a workspace to loaded weights.
std::unique_ptr<Worker::Loaded> Worker::with_memory(Model model, HostCache host, const EnginePlan& plan,
                                                    const ModelSpec& spec) {
  const Stage stage = pipeline_.stage();
  const CacheGroups all_groups = plan.cache_groups(spec);
  const CacheGroups own_groups = groups_of(stage, all_groups, spec);
  KvCache cache(model.kv_layouts(plan.kv_type(), plan.options.block_size), own_groups, plan.cache_blocks,
                StateCache(model.state_floats(), plan.cache_shape(all_groups).states), std::move(host));
  Workspace workspace(model.workspace_floats(plan.step_limits()));
  return std::make_unique<Loaded>(Loaded{std::move(model), std::move(cache), std::move(workspace)});
}

// Fills in the fields of info_ that describe this rank's part of the model. Collective.
void Worker::describe_own_part(const Loaded& loaded, const ModelSpec& spec, const WeightSource& source) {
  info_.unused_tensors = pipeline_.stage().is_whole()
                             ? loaded.model.unused_tensors()
                             : unused_by_all_stages(comm_, pipeline_, spec.names.as_stored_in(source), source,
                                                    loaded.model.unused_tensors());
  if (const SequenceHead* head = loaded.model.sequence_head()) info_.head_pooling = head->pooling();
  info_.weight_bytes = loaded.model.weight_bytes();
  info_.adapter_bytes = loaded.model.adapter_bytes();
  info_.cache_bytes = loaded.cache.capacity_bytes();
  info_.states = loaded.cache.states().slots();
  info_.state_bytes = loaded.cache.states().capacity_bytes();
  info_.workspace_bytes = loaded.workspace.capacity_bytes() + loaded.cache.exchange_bytes();
}

Worker::Worker(Communicator& comm, EnginePlan& plan, const WorkerOptions& options,
               const std::function<void(double)>& progress)
    : comm_(comm),
      pipeline_(comm, plan.options.pipeline),
      vocab_size_(plan.config.vocab_size),
      loaded_(load(plan, options, progress)),
      executor_(pipeline_.tensor(), loaded_->model, loaded_->cache, loaded_->workspace,
                plan.config.vocab_size, vocab_shards(plan, loaded_->model, pipeline_.tensor().size()),
                pipeline_.stage(), pipeline_.links(), plan.options.same_bits),
      statistics_(pipeline_.tensor()) {
  if (!pipeline_.stage().is_whole())
    executor_.receive_masks_from([&](std::size_t) { return pipeline_.receive_mask(vocab_size_); });
  fail_together(comm_, [&] {
    if (!loaded_->model.reads_soft_embeddings()) return;
    executor_.keep_soft_embeddings(SoftEmbeddings(plan.options.max_sequences,
                                                  plan.spec().diffusion->block_length,
                                                  static_cast<std::size_t>(info_.state_size)));
  });
}

Worker::~Worker() = default;

void Worker::add_draft(std::unique_ptr<DraftModel> draft) {
  draft_ = std::move(draft);
  fail_together(comm_, [&] {
    if (draft_ == nullptr || draft_->kept_states() == 0) return;
    loaded_->model.capture(draft_->captured_places());
    states_.emplace(draft_->kept_states(), draft_->size_of_kept_state());
    executor_.keep_states(*states_);
    draft_->read_states(*states_);
  });
}

VocabTables Worker::tables() const { return loaded_->model.tables(); }

std::vector<float> Worker::sequence_head(std::vector<float> pooled) const {
  const SequenceHead* head = loaded_->model.sequence_head();
  require<ConfigError>(
      head != nullptr,
      "cannot compute the head of a sequence: expected a classifier or an encoder with a pooler, "
      "found {}; use its hidden states",
      info_.config.architecture);
  return (*head)(std::move(pooled));
}

Sha256Digest Worker::store_fingerprint(const EnginePlan& plan) {
  Sha256Digest own{};
  fail_together(comm_, [&] {
    const std::string facts = store_facts(plan.options, plan.spec(), identity_);
    own = Sha256().add(std::as_bytes(std::span(facts))).finish();
  });
  return common_fingerprint(exchange_values(comm_, std::span<const Sha256Digest>(&own, 1)));
}

void Worker::open_store(const EnginePlan& plan, const Sha256Digest& fingerprint) {
  fail_together(comm_, [&] {
    std::vector<std::size_t> before = comm_.placement().own_host();
    std::erase_if(before, [&](std::size_t rank) { return rank >= comm_.rank(); });
    std::vector<CachePart> parts =
        parts_of(plan.spec(), plan.tp(comm_.rank()), loaded_->cache, loaded_->model.state_parts(), before);
    const StoreFolder folder(plan.options.kv_store, hex_of(fingerprint, 16), store_description(plan.options));
    if (before.empty()) folder.remove_abandoned();
    const std::uint64_t limit =
        before.empty() ? store_limit(plan.options.kv_store, plan.options.kv_store_size) : 0;
    std::vector<std::string> indexed = comm_.is_root() ? indexed_parts(parts) : std::vector<std::string>();
    store_ = std::make_unique<RankStore>(folder, std::move(parts), loaded_->cache.groups(), limit,
                                         std::move(indexed));
  });
}

Outputs Worker::run(const Command& command) {
  return std::visit([&](const auto& alternative) { return run_command(alternative); }, command);
}

Outputs Worker::run_command(const Forward& forward) {
  const double collecting_before = executor_.collecting_seconds();
  statistics_.begin_step();
  Outputs outputs;
  {
    const TraceSpan span(comm_, Activity::step, forward.tokens.size());
    outputs.results = run_stage(forward);
  }
  statistics_.end_step(executor_.collecting_seconds() - collecting_before);
  return outputs;
}

// With several stages, rank 0 sends masks to the last stage, and the last stage sends results to rank 0.
std::vector<Result> Worker::run_stage(const Forward& forward) {
  if (pipeline_.stage().is_whole()) return executor_.run(forward);
  const std::vector<Result> results = executor_.run(forward);
  if (pipeline_.collects_results()) pipeline_.send_results(results);
  for (std::size_t output = 0; comm_.is_root() && output < forward.outputs.size(); ++output) {
    const auto* choose = std::get_if<want::Choose>(&forward.outputs[output].want);
    if (choose != nullptr && choose->masked) pipeline_.send_mask(forward.masks(output));
  }
  return {};
}

Outputs Worker::run_command(const DraftForward& command) {
  return draft_->worker().run(Command(command.forward));
}

Outputs Worker::run_command(const Report& /*command*/) {
  RankReport report = describe_rank(pipeline_.tensor(), loaded_->cache.own_shared_memory());
  report.threads = info_.options.threads;
  report.weight_bytes = info_.weight_bytes;
  report.bytes_used = info_.bytes_used;
  report.bytes_from_storage = info_.bytes_from_storage;
  report.cache_bytes = info_.cache_bytes;
  report.workspace_bytes = info_.workspace_bytes;
  statistics_.fill(report);
  return {.reports = gather_values(comm_, report)};
}

Outputs Worker::run_command(const ResetStatistics& /*command*/) {
  statistics_.reset();
  return {};
}

Outputs Worker::run_command(const MeasurePeakRates& /*command*/) {
  constexpr std::uint64_t kNeeded = std::uint64_t{1} << 30;  // twice the bytes that the measurement uses
  const bool has_room =
      std::min(available_memory().bytes / comm_.local_size(), available_addresses()) >= kNeeded;
  if (max_over_ranks(comm_, has_room ? 0 : 1) != 0) return {};
  return {.peak_rates = measure_peak_rates(comm_, info_.options.threads)};
}

Outputs Worker::run_command(const StartTrace& /*command*/) {
  barrier(comm_);
  comm_.tracer().start();
  return {};
}

Outputs Worker::run_command(const GatherTrace& /*command*/) { return {.traces = gather_traces(comm_)}; }

Outputs Worker::run_command(const Stop& /*command*/) { return {}; }

Outputs Worker::run_command(const StoreWork& command) {
  const auto run = [&] {
    const TraceSpan span(comm_, Activity::store, store_->bytes_to_copy(command));
    return store_->run(command);
  };
  return {.store = gather_values(comm_, run())};
}

}  // namespace tp
