#include "runtime/engine/worker.h"

#include "model/kernels/matmul.h"
#include "model/layers/decoder.h"
#include "model/memory/kv_cache.h"
#include "model/memory/workspace.h"
#include "model/weights/two_phase_reader.h"
#include "parallel/agreement.h"
#include "parallel/archive.h"
#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "parallel/placement.h"
#include "parallel/stopwatch.h"
#include "parallel/storage_reads.h"
#include "parallel/tracer.h"
#include "runtime/engine/memory_plan.h"
#include "runtime/engine/packed_weights.h"
#include "runtime/engine/rank_report.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace tp {

// The weights, and the memory that steps use.
struct Worker::Model {
  Decoder decoder;
  KvCache cache;
  Workspace workspace;
};

namespace {

EngineInfo describe(const EnginePlan& plan, const DecoderSpec& spec, const WeightSource& source) {
  EngineInfo info;
  info.config = plan.config;
  info.parameters = count_parameters(spec);
  info.weights = usual_weight_type(plan, source);
  if (!plan.weights) info.rounded = text_of_rounded(source.types());
  info.kv_type = plan.kv_type;
  info.same_bits = plan.same_bits;
  info.stored_bytes = source.stored_bytes();
  info.bytes_used = source.bytes_read();
  const CacheShape cache = plan.cache_shape(CacheGroups::of(spec));
  info.cache_tokens = cache.tokens_in(plan.cache_blocks, plan.max_sequences, plan.max_length);
  info.max_length = plan.max_length;
  return info;
}

// Sizes the cache before anything large is allocated, because Linux kills processes when memory runs out.
// Returns CachePlan's notice on rank 0.
std::string fit_into_memory(Communicator& comm, EnginePlan& plan, const DecoderSpec& spec,
                            const WeightSource& source, const WorkerOptions& options) {
  const Footprint footprint(spec, plan, source);
  RankMemory own;
  fail_together(comm, [&] { own = describe_memory(footprint, {comm.rank(), comm.size()}); });
  const std::vector<RankMemory> ranks = gather_values(comm, own);
  CachePlan cache;
  fail_together(comm, [&] {
    if (comm.is_root()) cache = plan_cache(plan, footprint, ranks, comm.placement(), options.cache_tokens);
  });
  broadcast_object(comm, cache.blocks);
  plan.cache_blocks = cache.blocks;
  return std::move(cache.notice);
}

// Whether ranks have a packed cache: all, or none. Collective.
bool use_packed_cache(Communicator& comm, const WorkerOptions& options) {
  const bool own = !options.packed_cache.empty();
  fail_together(comm, [&] {
    require_agreement(comm, own ? 1 : 0, "whether there is a packed cache",
                      "give every rank a folder for it, or none");
  });
  return own;
}

}  // namespace

std::unique_ptr<Worker::Model> Worker::load(EnginePlan& plan, const WorkerOptions& options,
                                            const Engine::Progress& progress) {
  const Stopwatch watch;
  const std::optional<std::uint64_t> before = bytes_from_storage();
  const TpRank tp{comm_.rank(), comm_.size()};
  const TwoPhaseReader columns(comm_);
  DecoderSpec spec;
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<Model> model;
  fail_together(comm_, [&] {
    spec = plan.spec();
    source = open_weights(plan);
  });
  fail_together(comm_, [&] {
    require_agreement(comm_, source->fingerprint(), fmt::format("the checkpoint in {}", plan.model),
                      "copy the same files to every host");
  });
  bool in_two_phases = false;
  fail_together(comm_, [&] { in_two_phases = reads_in_two_phases(comm_.placement().hosts.size()); });
  fail_together(comm_, [&] {
    require_agreement(comm_, in_two_phases ? 1 : 0, "how weights are read",
                      "set TP_LOADING alike on every host");
  });
  if (in_two_phases) source->read_exactly(columns);
  std::string cache_notice = fit_into_memory(comm_, plan, spec, *source, options);
  fail_together(comm_, [&] { kernels::prepare_matmul(plan.same_bits); });
  const auto share = static_cast<double>(count_parameters(spec)) / static_cast<double>(comm_.size());
  const auto on_load = [&](std::size_t elements) {
    if (progress) progress(std::min(1.0, static_cast<double>(elements) / share));
  };
  std::optional<PackedCache> packed;
  std::optional<Decoder> decoder;
  const auto load_weights = [&] {
    decoder.reset();
    decoder.emplace(spec, *source, tp, plan.weights, on_load, packed ? &*packed : nullptr);
  };
  PackedWeights packed_weights;
  if (use_packed_cache(comm_, options)) {
    fail_together(comm_, [&] {
      packed.emplace(options.packed_cache,
                     PackedCacheIdentity{std::filesystem::weakly_canonical(plan.model).string(),
                                         source->identity(), plan.weights, leaf_heads(spec), tp});
    });
    packed_weights = load_through_cache(comm_, *packed, load_weights);
  } else {
    fail_together(comm_, load_weights);
  }
  packed.reset();
  fail_together(comm_, [&] {
    KvCache cache(decoder->kv_layouts(plan.kv_type, plan.block_size), CacheGroups::of(spec),
                  plan.cache_blocks);
    Workspace workspace(decoder->workspace_floats(plan.step_limits()));
    model = std::make_unique<Model>(Model{std::move(*decoder), std::move(cache), std::move(workspace)});
  });
  info_ = describe(plan, spec, *source);
  info_.load_seconds = watch.seconds();
  if (before) info_.bytes_from_storage = bytes_from_storage().value_or(*before) - *before;
  info_.threads = options.threads;
  info_.cache_notice = std::move(cache_notice);
  info_.from_packed_cache = packed_weights.were_read;
  info_.packed_cache_notice = std::move(packed_weights.notice);
  info_.unused_tensors = model->decoder.unused_tensors();
  info_.weight_bytes = model->decoder.weight_bytes();
  info_.cache_bytes = model->cache.capacity_bytes();
  info_.workspace_bytes = model->workspace.capacity_bytes();
  return model;
}

Worker::Worker(Communicator& comm, EnginePlan& plan, const WorkerOptions& options,
               const Engine::Progress& progress)
    : comm_(comm),
      model_(load(plan, options, progress)),
      executor_(comm, model_->decoder, model_->cache, model_->workspace, plan.config.vocab_size,
                plan.same_bits),
      statistics_(comm) {}

Worker::~Worker() = default;

Outputs Worker::run(const Command& command, const MaskSource& masks) {
  return std::visit(
      [&](const auto& alternative) {
        if constexpr (std::is_same_v<decltype(alternative), const Forward&>)
          return run_command(alternative, masks);
        else
          return run_command(alternative);
      },
      command);
}

Outputs Worker::run_command(const Forward& forward, const MaskSource& masks) {
  const double collecting_before = executor_.collecting_seconds();
  statistics_.begin_step();
  Outputs outputs;
  {
    const TraceSpan span(comm_, Activity::step, forward.tokens.size());
    outputs.results = executor_.run(forward, masks);
  }
  statistics_.end_step(executor_.collecting_seconds() - collecting_before);
  return outputs;
}

Outputs Worker::run_command(const Report& /*command*/) {
  RankReport report = describe_rank(comm_);
  report.threads = info_.threads;
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

Outputs Worker::run_command(const StartTrace& /*command*/) {
  barrier(comm_);
  comm_.tracer().start();
  return {};
}

Outputs Worker::run_command(const GatherTrace& /*command*/) { return {.traces = gather_traces(comm_)}; }

Outputs Worker::run_command(const Stop& /*command*/) { return {}; }

}  // namespace tp
