#include "runtime/step/worker.h"

#include "model/layers/model.h"
#include "model/memory/kv_cache.h"
#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/available_memory.h"
#include "runtime/setup/rank_report.h"
#include "runtime/step/draft_model.h"
#include "runtime/store/files/prompt_ids.h"
#include "runtime/store/files/store_fingerprint.h"
#include "runtime/store/files/store_limit.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tp {

namespace {

// Each rank's range of token ids.
std::vector<Range> vocab_shards(const EnginePlan& plan, const Model& model, std::size_t ranks) {
  std::vector<Range> shards;
  const DraftVocabulary* const draft = model.draft_vocabulary();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shards.push_back(draft != nullptr ? draft->tokens_on(plan.tp(rank))
                                      : shard_columns(plan.config.vocab_size, plan.tp(rank)));
  return shards;
}

}  // namespace

Worker::Worker(Communicator& comm, EnginePlan& plan, const WorkerOptions& options,
               const std::function<void(double)>& progress)
    : comm_(comm),
      pipeline_(comm, plan.options.pipeline),
      vocab_size_(plan.config.vocab_size),
      loaded_(load_model(comm, pipeline_, plan, options, progress)),
      executor_(pipeline_.tensor(), loaded_.model, loaded_.cache, loaded_.workspace, plan.config.vocab_size,
                vocab_shards(plan, loaded_.model, pipeline_.tensor().size()), pipeline_.stage(),
                pipeline_.links(), plan.options.same_bits),
      statistics_(pipeline_.tensor()) {
  if (!pipeline_.stage().is_whole())
    executor_.receive_masks_from([&](std::size_t) { return pipeline_.receive_mask(vocab_size_); });
  fail_together(comm_, [&] {
    if (!loaded_.model.reads_soft_embeddings()) return;
    executor_.keep_soft_embeddings(SoftEmbeddings(plan.options.max_sequences,
                                                  plan.spec().diffusion->block_length,
                                                  static_cast<std::size_t>(loaded_.info.state_size)));
  });
}

Worker::~Worker() = default;

void Worker::add_draft(std::unique_ptr<DraftModel> draft) {
  draft_ = std::move(draft);
  fail_together(comm_, [&] {
    if (draft_ == nullptr || draft_->kept_states() == 0) return;
    loaded_.model.capture(draft_->captured_places());
    states_.emplace(draft_->kept_states(), draft_->size_of_kept_state());
    executor_.keep_states(*states_);
    draft_->read_states(*states_);
  });
}

VocabTables Worker::tables() const { return loaded_.model.tables(); }

std::vector<float> Worker::sequence_head(std::vector<float> pooled) const {
  const SequenceHead* head = loaded_.model.sequence_head();
  require<ConfigError>(
      head != nullptr,
      "cannot compute the head of a sequence: expected a classifier or an encoder with a pooler, "
      "found {}; use its hidden states",
      loaded_.info.config.architecture);
  return (*head)(std::move(pooled));
}

Sha256Digest Worker::store_fingerprint(const EnginePlan& plan) {
  Sha256Digest own{};
  fail_together(comm_, [&] {
    const std::string facts = store_facts(plan.options, plan.spec(), loaded_.identity);
    own = Sha256().add(std::as_bytes(std::span(facts))).finish();
  });
  return common_fingerprint(exchange_values(comm_, std::span<const Sha256Digest>(&own, 1)));
}

void Worker::open_store(const EnginePlan& plan, const Sha256Digest& fingerprint) {
  fail_together(comm_, [&] {
    std::vector<std::size_t> before = comm_.placement().own_host();
    std::erase_if(before, [&](std::size_t rank) { return rank >= comm_.rank(); });
    std::vector<CachePart> parts =
        parts_of(plan.spec(), plan.tp(comm_.rank()), loaded_.cache, loaded_.model.state_parts(), before);
    const StoreFolder folder(plan.options.kv_store, hex_of(fingerprint, 16), store_description(plan.options));
    if (before.empty()) folder.remove_abandoned();
    const std::uint64_t limit =
        before.empty() ? store_limit(plan.options.kv_store, plan.options.kv_store_size) : 0;
    std::vector<std::string> indexed = comm_.is_root() ? indexed_parts(parts) : std::vector<std::string>();
    store_ = std::make_unique<RankStore>(folder, std::move(parts), loaded_.cache.groups(), limit,
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
  RankReport report = describe_rank(pipeline_.tensor(), loaded_.cache.own_shared_memory());
  report.threads = loaded_.info.options.threads;
  report.weight_bytes = loaded_.info.weight_bytes;
  report.bytes_used = loaded_.info.bytes_used;
  report.bytes_from_storage = loaded_.info.bytes_from_storage;
  report.cache_bytes = loaded_.info.cache_bytes;
  report.workspace_bytes = loaded_.info.workspace_bytes;
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
  return {.peak_rates = measure_peak_rates(comm_, loaded_.info.options.threads)};
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
