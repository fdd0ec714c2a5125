#include "runtime/step/model_loading.h"

#include "model/config/architectures.h"
#include "model/kernels/matmul.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/two_phase_reader.h"
#include "parallel/exchange/agreement.h"
#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/stopwatch.h"
#include "parallel/machine/storage_reads.h"
#include "runtime/setup/footprint.h"
#include "runtime/setup/memory_plan.h"
#include "runtime/setup/missing_kernels.h"
#include "runtime/setup/model_identity.h"
#include "runtime/setup/packed_weights.h"
#include "runtime/setup/plan_agreement.h"
#include "runtime/step/stage_tensors.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

EngineInfo describe(const EnginePlan& plan, const ModelSpec& spec, const WeightSource& source) {
  EngineInfo info;
  info.options = plan.options;
  info.config = plan.config;
  info.kind = kind_of(plan.config);
  info.parameters = count_parameters(spec);
  info.weights = usual_weight_type(plan, source);
  if (!plan.weights()) info.rounded = list_rounded(source.types());
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

// The memory of all ranks, on rank 0. Collective.
std::vector<RankMemory> gather_memory(Communicator& comm, Pipeline& pipeline, const EnginePlan& plan,
                                      const Footprint& footprint, const WorkerOptions& options) {
  RankMemory own;
  fail_together(comm, [&] {
    own = describe_memory(footprint, plan.tp(pipeline.tensor().rank()), pipeline.stage(), options.beside);
  });
  return gather_values(comm, own);
}

// Rank 0's answer, on all ranks. Collective.
bool ask_first_rank(Communicator& comm, const std::function<bool()>& answer) {
  bool is_so = false;
  fail_together(comm, [&] { is_so = comm.is_root() && answer(); });
  broadcast_object(comm, is_so);
  return is_so;
}

// Whether the model and the whole cache fit.
bool fits(const EnginePlan& plan, const Footprint& footprint, std::span<const RankMemory> ranks,
          const Placement& placement) {
  try {
    return plan_cache(plan, footprint, ranks, placement, plan.options.cache_tokens).notice.empty();
  } catch (const ConfigError&) {
    return false;
  }
}

// Sets plan.divides_tables: divides hash tables among hosts if a host's memory has no room for all rows,
// because other hosts' memory is faster than disks. Dividing a single host's ranks would gain nothing.
// Collective.
void divide_large_tables(Communicator& comm, Pipeline& pipeline, EnginePlan& plan, const WeightSource& source,
                         const WorkerOptions& options) {
  const auto own_hosts = static_cast<std::int64_t>(pipeline.tensor().placement().hosts.size());
  const ModelSpec spec = plan.spec();
  if (options.cache_is_planned || !has_hash_tables(spec) || max_over_ranks(comm, own_hosts) == 1) return;
  const std::vector<RankMemory> whole =
      gather_memory(comm, pipeline, plan, Footprint(spec, plan, source), options);
  if (!ask_first_rank(comm, [&] { return lacks_room_for_tables(whole, comm.placement()); })) return;
  plan.divides_tables = true;
  const ModelSpec divided = plan.spec();
  const Footprint footprint(divided, plan, source);
  const std::vector<RankMemory> parts = gather_memory(comm, pipeline, plan, footprint, options);
  plan.divides_tables = ask_first_rank(comm, [&] { return fits(plan, footprint, parts, comm.placement()); });
}

// Sizes the cache before anything large is allocated, because Linux kills processes when memory runs out.
// Returns CachePlan's notice on rank 0.
std::string fit_into_memory(Communicator& comm, Pipeline& pipeline, EnginePlan& plan, const ModelSpec& spec,
                            const WeightSource& source, const WorkerOptions& options) {
  if (options.cache_is_planned) return {};
  const Footprint footprint(spec, plan, source);
  const std::vector<RankMemory> ranks = gather_memory(comm, pipeline, plan, footprint, options);
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

// The cache groups of a stage.
CacheGroups groups_of(Stage stage, const CacheGroups& all, const ModelSpec& spec) {
  return stage.is_whole() ? all : all.with_layers(stage.layers(spec.blocks.size()));
}

// Loads this rank's part of a model. All methods are collective.
class Loader {
 public:
  Loader(Communicator& comm, Pipeline& pipeline, EnginePlan& plan)
      : comm_(comm), pipeline_(pipeline), plan_(plan) {}
  LoadedModel load(const WorkerOptions& options, const std::function<void(double)>& progress);

 private:
  PackedWeights load_weights(const WeightSource& source, ModelIdentity& identity, bool in_two_phases,
                             const VocabTables& others, const std::function<void(double)>& progress,
                             std::optional<Model>& model);
  HostCache share_cache(const Model& model);
  LoadedModel with_memory(Model model, HostCache host);
  void describe_own_part(LoadedModel& loaded, const WeightSource& source);

  Communicator& comm_;
  Pipeline& pipeline_;
  EnginePlan& plan_;
  ModelSpec spec_;
};

LoadedModel Loader::load(const WorkerOptions& options, const std::function<void(double)>& progress) {
  Communicator& tensor = pipeline_.tensor();
  fail_together(comm_, [&] { tensor.sums().prepare_wire(plan_.options.wire); });
  const Stopwatch watch;
  const std::optional<std::uint64_t> read_before = bytes_from_storage();
  const TwoPhaseReader columns(tensor);
  fail_together(comm_, [&] { spec_ = plan_.spec(); });
  std::unique_ptr<WeightSource> source;
  fail_together(comm_, [&] { source = open_weights(plan_); });
  agree_on_adapters(comm_, plan_, *source);
  ModelIdentity identity(comm_, *source, plan_.options.model.string());
  const bool in_two_phases = agree_on_two_phases(comm_, tensor);
  if (in_two_phases) source->read_exactly(columns);
  divide_large_tables(comm_, pipeline_, plan_, *source, options);
  if (plan_.divides_tables) divide_hash_tables(spec_);
  std::string cache_notice = fit_into_memory(comm_, pipeline_, plan_, spec_, *source, options);
  fail_together(comm_, [&] { kernels::prepare_matmul(plan_.options.same_bits); });

  std::optional<Model> model;
  PackedWeights packed = load_weights(*source, identity, in_two_phases, options.others, progress, model);
  ContentHash content;
  if (identity.has_copies() || !plan_.options.kv_store.empty()) content = identity.read();
  HostCache host = share_cache(*model);
  std::optional<LoadedModel> loaded;
  fail_together(comm_, [&] { loaded.emplace(with_memory(std::move(*model), std::move(host))); });
  loaded->identity = content;
  EngineInfo& info = loaded->info;
  info = describe(plan_, spec_, *source);
  info.load_time = std::chrono::duration<double>(watch.seconds());
  if (read_before) info.bytes_from_storage = bytes_from_storage().value_or(*read_before) - *read_before;
  info.cache_notice = std::move(cache_notice);
  if (!plan_.not_shared_because.empty())
    info.cache_notice += fmt::format(
        "{}each rank keeps its own copy of the KV cache, because ranks of a host cannot share memory: {}",
        info.cache_notice.empty() ? "" : "; ", plan_.not_shared_because);
  info.kernels_notice = missing_kernels(comm_);
  info.from_packed_cache = packed.were_read;
  info.packed_cache_notice = std::move(packed.notice);
  describe_own_part(*loaded, *source);
  return std::move(*loaded);
}

PackedWeights Loader::load_weights(const WeightSource& source, ModelIdentity& identity, bool in_two_phases,
                                   const VocabTables& others, const std::function<void(double)>& progress,
                                   std::optional<Model>& model) {
  Communicator& tensor = pipeline_.tensor();
  const Stage stage = pipeline_.stage();
  const TpRank tp = plan_.tp(tensor.rank());
  std::optional<PackedCache> packed;
  const auto load = [&] {
    // Hash tables that stay in the files are not loaded.
    const auto share =
        static_cast<double>(Model::shape_of(spec_, source, tp, plan_.weights(), stage, others).parameters());
    const auto on_load = [&](std::size_t elements) {
      if (progress) progress(std::min(1.0, static_cast<double>(elements) / share));
    };
    model.reset();
    model.emplace(spec_, source, tp, plan_.weights(), on_load, packed ? &*packed : nullptr, stage, others);
  };
  const auto load_together = [&] {
    if (in_two_phases && !stage.is_whole())
      load_in_stage(tensor, load);
    else
      load();
  };
  std::string path;
  fail_together(comm_, [&] { path = std::filesystem::weakly_canonical(plan_.options.model).string(); });
  const PackedCacheIdentity packed_as{path, {},    plan_.weights(),     leaf_heads(spec_),
                                      tp,   stage, plan_.divides_tables};
  return load_packed(comm_, plan_, packed_as, identity, packed, load_together);
}

// Maps the cache of this host, unless this rank keeps a private cache.
HostCache Loader::share_cache(const Model& model) {
  const Stage stage = pipeline_.stage();
  const TpRank tp = plan_.tp(pipeline_.tensor().rank());
  const std::vector<std::size_t> ranks = plan_.cache_ranks(stage.index, tp);
  if (ranks.size() < 2) {
    fail_together(comm_, [] {});
    return {};
  }
  HostCache host{.slices = plan_.cache_slices(spec_, stage, tp, plan_.cache_blocks),
                 .max_blocks = plan_.step_limits().max_blocks};
  const std::size_t bytes =
      host.region_bytes(model.kv_layouts(plan_.kv_type(), plan_.options.block_size),
                        groups_of(stage, plan_.cache_groups(spec_), spec_), plan_.cache_blocks);
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
LoadedModel Loader::with_memory(Model model, HostCache host) {
  const Stage stage = pipeline_.stage();
  const CacheGroups all_groups = plan_.cache_groups(spec_);
  const CacheGroups own_groups = groups_of(stage, all_groups, spec_);
  KvCache cache(model.kv_layouts(plan_.kv_type(), plan_.options.block_size), own_groups, plan_.cache_blocks,
                StateCache(model.state_floats(), plan_.cache_shape(all_groups).states), std::move(host));
  Workspace workspace(model.workspace_floats(plan_.step_limits()));
  return {std::move(model), std::move(cache), std::move(workspace)};
}

// Fills in the fields of loaded.info that describe this rank's part of the model.
void Loader::describe_own_part(LoadedModel& loaded, const WeightSource& source) {
  EngineInfo& info = loaded.info;
  info.unused_tensors = pipeline_.stage().is_whole()
                            ? loaded.model.unused_tensors()
                            : unused_by_all_stages(comm_, pipeline_, spec_.names.as_stored_in(source), source,
                                                   loaded.model.unused_tensors());
  if (const SequenceHead* head = loaded.model.sequence_head()) info.head_pooling = head->pooling();
  info.weight_bytes = loaded.model.weight_bytes();
  info.adapter_bytes = loaded.model.adapter_bytes();
  info.cache_bytes = loaded.cache.capacity_bytes();
  info.states = loaded.cache.states().slots();
  info.state_bytes = loaded.cache.states().capacity_bytes();
  info.workspace_bytes = loaded.workspace.capacity_bytes() + loaded.cache.exchange_bytes();
}

}  // namespace

LoadedModel load_model(Communicator& comm, Pipeline& pipeline, EnginePlan& plan, const WorkerOptions& options,
                       const std::function<void(double)>& progress) {
  return Loader(comm, pipeline, plan).load(options, progress);
}

}  // namespace tp
