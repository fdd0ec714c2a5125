#include "tp/engine.h"

#include "model/config/architectures.h"
#include "model/config/generation_config.h"
#include "model/files/file_notices.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_files.h"
#include "model/weights/unused_tensors.h"
#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/available_memory.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/engine/measured_rows.h"
#include "runtime/engine/rank_zero.h"
#include "runtime/engine/unknown_ids.h"
#include "runtime/setup/drafter_plan.h"
#include "runtime/setup/engine_plan_archive.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/internal_hooks.h"
#include "runtime/setup/next_token_plan.h"
#include "runtime/setup/overlap_choice.h"
#include "runtime/setup/plan_agreement.h"
#include "runtime/speculation/answer_history.h"
#include "runtime/step/command_loop.h"
#include "runtime/step/draft_model.h"
#include "runtime/step/worker.h"
#include "runtime/text/detokenizer.h"
#include "runtime/text/finite_results.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace tp {
namespace {

constexpr auto kStorePause = std::chrono::microseconds(500);  // while there is nothing else to do

std::filesystem::path folder_of(const EnginePlan& plan) {
  const EngineOptions& options = plan.options;
  return options.synthetic ? options.model.parent_path() : options.model;
}

std::optional<Tokenizer> load_tokenizer(const EnginePlan& plan) {
  if (!holds_tokenizer(folder_of(plan))) return std::nullopt;
  std::optional<Tokenizer> tokenizer = Tokenizer::load(folder_of(plan));
  tokenizer->pad_to(plan.config.vocab_size);
  return tokenizer;
}

// Loads the tokenizer on rank 0 while all ranks load their weights, because a large vocabulary takes as long
// as a gigabyte of weights. Loads it later, on this thread, if no other thread can be started or address
// space is limited: whether address space suffices must not depend on timing.
std::future<std::optional<Tokenizer>> begin_loading_tokenizer(const Communicator& comm,
                                                              const EnginePlan& plan) {
  if (!comm.is_root()) return {};
  const bool is_limited = available_addresses() != UINT64_MAX;
  const auto policy = is_limited ? std::launch::deferred : std::launch::async | std::launch::deferred;
  return std::async(policy, [plan] { return load_tokenizer(plan); });
}

// Fills in the facts that only rank 0 knows.
void complete(EngineInfo& info, const EnginePlan& plan) {
  const std::optional<DiffusionSpec> diffusion = plan.spec().diffusion;
  const bool has_canvases = diffusion && diffusion->canvas;
  const GenerationConfig defaults =
      plan.options.synthetic ? GenerationConfig{} : load_generation_config(folder_of(plan), has_canvases);
  info.default_sampling = defaults.sampling;
  // Models of canvases draw tokens by a schedule of temperatures, which a temperature multiplies.
  if (has_canvases && !defaults.says_if_it_draws) info.default_sampling.temperature = 1.0F;
  info.generation = defaults.generation;
  info.generation_notice = defaults.notice;
  info.eos_token_ids = defaults.eos_token_ids.empty() ? plan.config.eos_token_ids : defaults.eos_token_ids;
  TokenizerFlaws flaws = find_tokenizer_flaws(folder_of(plan));
  info.tokenizer_notice = flaws.unsupported.value_or("");
  info.unknown_token_ids = std::move(flaws.unknown_ids);
  ignore_unknown_ids(info);
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Communicator& comm, const EngineOptions& options, const EngineHooks& hooks);

  // Rank 0: runs one step.
  void step();
  // Rank 0: lets the ranks' stores work, if there is anything for them to do.
  void run_store();
  void flush_store() noexcept;
  // Rank 0: runs steps until this request has ended. Throws RequestError if the request failed, and rethrows
  // exceptions of `on_event`.
  void serve(Request request, const EventSink& on_event);
  std::vector<RankReport> reports();
  void reset_statistics();

  Leader& leader() { return rank_zero_->leader; }
  void require_tokenizer(const char* what) const;
  const Tokenizer* tokenizer() const { return rank_zero_->tokenizer ? &*rank_zero_->tokenizer : nullptr; }

  Communicator& comm_;
  EnginePlan plan_;
  std::optional<DraftPlan> draft_plan_;
  std::future<std::optional<Tokenizer>> tokenizer_;  // moves to rank_zero_
  Worker worker_;
  CommandLoop loop_;
  EngineInfo info_;
  std::unique_ptr<RankZero> rank_zero_;  // null on other ranks
  std::function<void(const std::string&)> note_;
  OverlapChoice overlap_;

 private:
  // A step that has begun.
  struct InFlight {
    PlannedStep planned;
    Stopwatch watch;
  };
  bool begin_step();
  void finish_step();
  WorkerOptions worker_options() const;
  std::unique_ptr<Speculator> create_speculator(const EngineHooks& hooks, std::optional<RowCosts> costs);

  std::deque<InFlight> in_flight_;
};

WorkerOptions Engine::Impl::worker_options() const {
  WorkerOptions own;
  fail_together(comm_, [&] {
    if (draft_plan_) own.beside = draft_need(comm_, *draft_plan_, plan_);
    if (comm_.is_root()) own.beside.other += AnswerHistory::bytes_of(plan_.options.speculation.draft_history);
  });
  return own;
}

Engine::Impl::Impl(Communicator& comm, const EngineOptions& options, const EngineHooks& hooks)
    : comm_(comm),
      plan_(agree_on_plan(comm, options)),
      draft_plan_(agree_on_draft(comm, options, hooks, plan_)),
      tokenizer_(begin_loading_tokenizer(comm, plan_)),
      worker_(comm, plan_, worker_options(), hooks.progress),
      loop_(comm, worker_),
      info_(worker_.info()),
      note_(hooks.note),
      overlap_(plan_.overlaps ? plan_.options.two_batch_overlap : TwoBatchOverlap::off) {
  if (draft_plan_) worker_.add_draft(load_draft(comm, *draft_plan_, plan_, worker_.tables()));
  if (tokenizer_.valid()) tokenizer_.wait();  // it would disturb the measurements
  std::optional<RowCosts> costs = measured_row_costs(comm, worker_, plan_);
  const bool has_store = !plan_.options.kv_store.empty();
  const Sha256Digest fingerprint = has_store ? worker_.store_fingerprint(plan_) : Sha256Digest{};
  if (has_store) worker_.open_store(plan_, fingerprint);
  fail_together(comm, [&] {
    if (!comm.is_root()) return;
    complete(info_, plan_);
    if (worker_.draft() != nullptr) info_.draft = worker_.draft()->info();
    if (info_.draft && info_.draft->is_layer) leave_out_next_token_layers(info_.unused_tensors);
    rank_zero_ = std::make_unique<RankZero>(tokenizer_.get(), plan_, info_,
                                            create_speculator(hooks, std::move(costs)));
    if (has_store) rank_zero_->open_store(plan_, fingerprint, comm.size());
    info_.file_notices = take_file_notices();
  });
}

// Rank 0 only.
std::unique_ptr<Speculator> Engine::Impl::create_speculator(const EngineHooks& hooks,
                                                            std::optional<RowCosts> costs) {
  DraftSources sources{.custom = hooks.draft_source,
                       .wrap = draft_wrapper(hooks),
                       .follows_prompts = draft_plan_ && reads_states(draft_plan_->plan)};
  if (DraftModel* const draft = worker_.draft()) {
    ModelSource::Run run = [draft](Forward forward) {
      return draft->worker().run(Command(std::move(forward))).results;
    };
    if (draft_plan_->on_all_ranks)
      run = [this](Forward forward) { return loop_.run(DraftForward{std::move(forward)}).results; };
    DraftModelLimits limits = draft->limits();
    if (is_drafter(draft_plan_->plan))
      limits.has_state = [this](SequenceId sequence, std::size_t position) {
        return worker_.has_state(sequence, position);
      };
    // A wrapping source may translate ids.
    if (!draft_wrapper(hooks)) limits.known_ids = plan_.config.vocab_size;
    sources.model = [limits, run] { return std::make_unique<ModelSource>(limits, run); };
  }
  return make_speculator(plan_.options.speculation, sources, plan_.config.vocab_size, std::move(costs));
}

// Begins steps until every stage of the pipeline has one, and finishes the oldest step.
void Engine::Impl::step() {
  run_store();
  while (in_flight_.size() < plan_.options.pipeline && begin_step()) continue;
  if (!in_flight_.empty())
    finish_step();
  else if (leader().is_store_busy())
    std::this_thread::sleep_for(kStorePause);
}

void Engine::Impl::run_store() {
  for (const RunHeader& header : worker_.take_stored()) leader().add_stored(header);
  std::optional<StoreWork> work = leader().take_store_work();
  if (!work) return;
  const Outputs outputs = loop_.run(std::move(*work));
  for (const std::string& text : leader().apply_store_reports(outputs.store)) {
    if (note_) note_(text);
  }
}

// Writes what is still to be written, before the engine ends.
void Engine::Impl::flush_store() noexcept {
  try {
    while (leader().is_store_busy() && !loop_.is_broken()) {
      run_store();
      std::this_thread::sleep_for(kStorePause);
    }
  } catch (const std::exception&) {
    // CommandLoop knows that the other ranks can no longer be reached.
  }
}

// Returns false if there is nothing to compute.
bool Engine::Impl::begin_step() {
  PlannedStep planned = leader().plan();
  if (planned.chunks.empty()) return false;
  const std::size_t tokens = planned.forward.tokens.size();
  planned.forward.in_halves = overlap_.divides(tokens);
  in_flight_.push_back({std::move(planned), Stopwatch()});
  const InFlight& begun = in_flight_.back();
  const double wire_before = worker_.wire_seconds();
  loop_.begin(begun.planned.forward);
  overlap_.add(tokens, begun.planned.forward.in_halves, begun.watch.seconds(),
               worker_.wire_seconds() - wire_before);
  return true;
}

void Engine::Impl::finish_step() {
  const Outputs outputs = loop_.finish();
  const InFlight first = std::move(in_flight_.front());
  in_flight_.pop_front();
  const double step_seconds = first.watch.seconds();
  const Stopwatch watch;
  const TraceSpan span(comm_, Activity::sample, first.planned.forward.outputs.size());
  leader().apply_results(first.planned, outputs, step_seconds);
  rank_zero_->apply_seconds += watch.seconds();
}

void Engine::Impl::serve(Request request, const EventSink& on_event) {
  bool ended = false;
  std::string error;
  std::exception_ptr thrown;
  RequestId id = 0;
  id = rank_zero_->submit(std::move(request), [&](const Event& event) {
    ended = std::holds_alternative<RequestFinished>(event) ||
            std::holds_alternative<RequestCancelled>(event) || std::holds_alternative<RequestRejected>(event);
    if (const auto* token = std::get_if<TokenEvent>(&event)) error = token->error;
    if (const auto* rejected = std::get_if<RequestRejected>(&event)) error = rejected->error;
    if (thrown) return;
    try {
      on_event(event);
    } catch (...) {
      thrown = std::current_exception();
      rank_zero_->cancel(id);
    }
  });
  while (!ended) step();
  if (thrown) std::rethrow_exception(thrown);
  require<RequestError>(error.empty(), "{}", error);
}

std::vector<RankReport> Engine::Impl::reports() {
  const double wall = worker_.wall_seconds();
  std::vector<RankReport> reports = loop_.run(Report{}).reports;
  for (RankReport& report : reports) {
    // Between steps, the other ranks wait for rank 0, so its times also apply to them.
    TimeParts& time = report.time;
    const double between = std::max(0.0, wall - time.total());
    const double applying = std::min(rank_zero_->apply_seconds, between);
    time.sampling += applying;
    time.control = between - applying;
  }
  return reports;
}

void Engine::Impl::reset_statistics() {
  loop_.run(ResetStatistics{});
  rank_zero_->apply_seconds = 0.0;
}

Engine::Engine(Communicator& comm, const EngineOptions& options, const EngineHooks& hooks)
    : impl_(std::make_unique<Impl>(comm, options, hooks)), is_root_(comm.is_root()) {}

Engine::~Engine() {
  if (!is_root_) return;
  if (std::uncaught_exceptions() == 0) impl_->flush_store();
  impl_->loop_.stop(std::uncaught_exceptions() > 0 ? 1 : 0);
}

const EngineInfo& Engine::info() const { return impl_->info_; }
int Engine::follow() { return tp::follow(impl_->comm_, impl_->worker_); }
std::vector<RankReport> Engine::reports() { return impl_->reports(); }
TimeParts Engine::own_time() const { return impl_->worker_.own_time(); }
void Engine::reset_statistics() { impl_->reset_statistics(); }
std::optional<PeakRates> Engine::peak_rates() { return impl_->loop_.run(MeasurePeakRates{}).peak_rates; }
void Engine::start_trace() { impl_->loop_.run(StartTrace{}); }
std::vector<RankTrace> Engine::traces() { return impl_->loop_.run(GatherTrace{}).traces; }

void Engine::Impl::require_tokenizer(const char* what) const {
  const std::string& why = info_.tokenizer_notice;
  require<CheckpointError>(tokenizer() != nullptr, "{}: {}; give token ids", what,
                           why.empty() ? "the model has no tokenizer" : why);
}

bool Engine::has_tokenizer() const { return impl_->tokenizer() != nullptr; }

std::vector<TokenId> Engine::encode(std::string_view text, bool add_special) const {
  return encode(MarkedText(std::string(text)), add_special);
}

std::vector<TokenId> Engine::encode(const MarkedText& text, bool add_special) const {
  impl_->require_tokenizer("cannot tokenize");
  return impl_->tokenizer()->encode(text, add_special ? AddSpecial::yes : AddSpecial::no);
}

std::string Engine::decode(std::span<const TokenId> ids) const {
  impl_->require_tokenizer("cannot detokenize");
  return impl_->tokenizer()->decode(ids, SkipSpecial::yes);
}

std::string Engine::decode_with_special(std::span<const TokenId> ids) const {
  impl_->require_tokenizer("cannot detokenize");
  return impl_->tokenizer()->decode(ids, SkipSpecial::no);
}

std::vector<std::string> Engine::decode_parts(std::span<const TokenId> ids) const {
  impl_->require_tokenizer("cannot detokenize");
  Detokenizer detokenizer(*impl_->tokenizer(), {}, SkipSpecial::yes);
  std::vector<std::string> parts;
  for (const TokenId id : ids) parts.push_back(detokenizer.push(id));
  if (!parts.empty()) parts.back() += detokenizer.finish();
  return parts;
}

std::string Engine::bytes_of(TokenId id) const {
  impl_->require_tokenizer("cannot detokenize");
  return impl_->tokenizer()->bytes_of(id);
}

EncodedPair Engine::encode_pair(std::string_view first, std::string_view second) const {
  impl_->require_tokenizer("cannot tokenize");
  Tokenizer::Pair pair = impl_->tokenizer()->encode_pair(first, second);
  return {std::move(pair.ids), std::move(pair.types)};
}

std::optional<TokenId> Engine::find_token(std::string_view token) const {
  return has_tokenizer() ? impl_->tokenizer()->token_to_id(token) : std::nullopt;
}

bool Engine::is_special(TokenId id) const { return has_tokenizer() && impl_->tokenizer()->is_special(id); }

RequestId Engine::submit(Request request) {
  return submit(std::move(request), [&events = impl_->rank_zero_->events](const Event& event) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) events.push_back(*token);
  });
}

RequestId Engine::submit(Request request, EventSink sink) {
  return impl_->rank_zero_->submit(std::move(request), std::move(sink));
}

void Engine::compile_constraint(const Request& request) const { impl_->leader().compile_constraint(request); }
void Engine::cancel(RequestId request) { impl_->rank_zero_->cancel(request); }
bool Engine::clear_store() { return impl_->leader().clear_store(); }
LeaderStatus Engine::status() const { return impl_->rank_zero_->status(); }
bool Engine::has_work() const { return impl_->leader().has_work() || !impl_->rank_zero_->events.empty(); }
void Engine::wake() { impl_->leader().wake(); }

bool Engine::wait_for_work(std::chrono::nanoseconds timeout) {
  return has_work() || impl_->leader().is_store_busy() || impl_->leader().wait_for_work(timeout);
}

std::vector<TokenEvent> Engine::step() {
  impl_->step();
  return std::exchange(impl_->rank_zero_->events, {});
}

void Engine::logits(std::span<const TokenId> tokens,
                    const std::function<void(std::size_t, std::span<const float>)>& on_row,
                    bool bidirectional) {
  Request request;
  request.prompt.assign(tokens.begin(), tokens.end());
  request.max_tokens = 0;
  request.prompt_logits = true;
  request.bidirectional = bidirectional;
  impl_->serve(std::move(request), [&](const Event& event) {
    const auto* rows = std::get_if<PromptLogits>(&event);
    for (std::size_t i = 0; rows != nullptr && i < rows->positions(); ++i)
      on_row(rows->first + i, rows->row(i));
  });
}

void Engine::run(Request request, const EventSink& on_event) { impl_->serve(std::move(request), on_event); }

std::vector<float> Engine::sequence_head(std::vector<float> pooled) const {
  std::vector<float> results = impl_->worker_.sequence_head(std::move(pooled));
  require_finite(results, "scores");
  return results;
}

std::vector<double> Engine::logprobs(std::span<const TokenId> tokens, std::size_t first) {
  Request request;
  request.prompt.assign(tokens.begin(), tokens.end());
  request.max_tokens = 0;
  request.score_from = first;
  std::vector<double> all;
  impl_->serve(std::move(request), [&](const Event& event) {
    if (const auto* some = std::get_if<PromptLogprobs>(&event))
      all.insert(all.end(), some->logprobs.begin(), some->logprobs.end());
  });
  return all;
}

}  // namespace tp
