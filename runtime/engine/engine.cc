#include "tp/engine.h"

#include "model/config/architectures.h"
#include "model/config/generation_config.h"
#include "model/kernels/isa.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_files.h"
#include "parallel/agreement.h"
#include "parallel/archive.h"
#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "parallel/hash.h"
#include "parallel/processors.h"
#include "parallel/stopwatch.h"
#include "parallel/tracer.h"
#include "runtime/engine/command_loop.h"
#include "runtime/engine/engine_plan_archive.h"
#include "runtime/engine/engine_setup.h"
#include "runtime/engine/leader.h"
#include "runtime/engine/worker.h"
#include "tp/internal/require.h"
#include "tp/version.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include <omp.h>

namespace tp {
namespace {

// Rotary embeddings, routers and merged softmaxes use these functions, whose last bits differ between
// versions of the library and between processors with and without FMA.
std::uint64_t hash_of_libm() {
  std::string results;
  for (int i = 1; i <= 64; ++i) {
    const double x = 0.37 * i;
    results += fmt::format("{} {} {} {} {} ", std::sin(x * x), std::cos(x * x), std::pow(10000.0, -x / 24),
                           std::log(x), std::exp(static_cast<float>(-x)));
  }
  return hash_of(results);
}

// Ranks take the instruction set that all of them have. Collective.
void agree_on_isa(Communicator& comm) {
  struct Machine {
    kernels::Isa isa;
    bool pairs_are_fast;
  };
  Machine own{};
  fail_together(comm, [&] { own = {kernels::active_isa(), kernels::bf16_pairs_are_fast()}; });
  kernels::Isa common = own.isa;
  for (const Machine& other : exchange_values(comm, std::span<const Machine>(&own, 1)))
    common = std::min(common, kernels::common_isa(other.isa, other.pairs_are_fast));
  kernels::lower_isa(common);
  fail_together(comm, [&] {
    require_agreement(comm, hash_of_libm(), "the results of the C library's mathematical functions",
                      "install the same version of libc6 on every host, or do without same_bits");
  });
}

// Broadcasts rank 0's plan and checks that all ranks can execute it together. Collective.
EnginePlan agree_on_plan(Communicator& comm, const EngineOptions& options) {
  // Every rank detects a disagreement; fail_together turns that into one AgreedError.
  fail_together(comm, [&] {
    require_agreement(comm, hash_of(kVersion), "the program's version",
                      "start the same program on every host");
  });
  EnginePlan plan;
  fail_together(comm, [&] {
    if (!comm.is_root()) return;
    plan = make_plan(options, comm.size());
    if (!options.kv_type) plan.kv_type = default_kv_type(usual_weight_type(plan, *open_weights(plan)));
  });
  broadcast_object(comm, plan);
  if (!options.model.empty()) plan.model = options.model.string();
  if (plan.same_bits) {
    agree_on_isa(comm);
  } else if (plan.config.num_experts != 0) {
    // Every rank chooses experts on its own, and near a tie the last bit of a norm decides.
    fail_together(comm, [&] {
      require_agreement(comm, hash_of(kernels::name_of(kernels::active_isa())),
                        "the instruction set, on which the choice of experts depends",
                        "set TP_ISA to one that every host has, for example avx2");
    });
  }
  return plan;
}

std::size_t start_threads(const Communicator& comm, const EngineOptions& options) {
  const std::size_t threads = options.threads != 0 ? options.threads : default_threads(comm.local_size());
  omp_set_num_threads(static_cast<int>(threads));
  return threads;
}

std::filesystem::path folder_of(const EnginePlan& plan) {
  const std::filesystem::path model(plan.model);
  return plan.synthetic ? model.parent_path() : model;
}

std::optional<Tokenizer> load_tokenizer(const EnginePlan& plan) {
  if (plan.synthetic || !holds_tokenizer(folder_of(plan))) return std::nullopt;
  std::optional<Tokenizer> tokenizer = Tokenizer::load(folder_of(plan));
  tokenizer->pad_to(plan.config.vocab_size);
  return tokenizer;
}

// Fills in what only rank 0 knows.
void complete(EngineInfo& info, const EnginePlan& plan) {
  const GenerationConfig defaults =
      plan.synthetic ? GenerationConfig{} : load_generation_config(folder_of(plan));
  info.default_sampling = defaults.sampling;
  info.eos_token_ids = defaults.eos_token_ids.empty() ? plan.config.eos_token_ids : defaults.eos_token_ids;
}

LeaderOptions leader_options(const EnginePlan& plan, const EngineInfo& info, const EngineOptions& options) {
  return {.model = plan.model,
          .vocab_size = plan.config.vocab_size,
          .max_length = plan.max_length,
          .eos_token_ids = info.eos_token_ids,
          .cache_blocks = plan.cache_blocks,
          .cache = plan.cache_shape(CacheGroups::of(make_spec(plan.config))),
          .limits = {.prefill_chunk = plan.prefill_chunk,
                     .step_tokens = plan.step_limits().tokens,
                     .max_sequences = plan.max_sequences,
                     .step_ms = options.step_ms},
          .queue = {.requests = options.max_queue, .prompt_tokens = options.max_queue_tokens}};
}

// Rank 0's half.
struct Root {
  Root(const EnginePlan& plan, const EngineInfo& info, const EngineOptions& options)
      : tokenizer(load_tokenizer(plan)),
        leader(leader_options(plan, info, options), tokenizer ? &*tokenizer : nullptr) {}

  std::optional<Tokenizer> tokenizer;
  Leader leader;
  std::vector<TokenEvent> events;  // of requests without a sink, since the last step
  double settle_seconds = 0.0;     // since the statistics were reset
};

}  // namespace

class Engine::Impl {
 public:
  Impl(Communicator& comm, const EngineOptions& options, const Progress& progress);

  // Rank 0: runs one step.
  void step();
  // Rank 0: runs steps until this request has ended. Throws RequestError if it failed, or what `on_event`
  // throws.
  void serve(Request request, const EventSink& on_event);
  std::vector<RankReport> reports();
  void reset_statistics();

  Leader& leader() { return root_->leader; }
  const Tokenizer* tokenizer() const { return root_->tokenizer ? &*root_->tokenizer : nullptr; }

  Communicator& comm_;
  EnginePlan plan_;
  Worker worker_;
  CommandLoop loop_;
  EngineInfo info_;
  std::unique_ptr<Root> root_;  // null on other ranks
};

Engine::Impl::Impl(Communicator& comm, const EngineOptions& options, const Progress& progress)
    : comm_(comm),
      plan_(agree_on_plan(comm, options)),
      worker_(comm, plan_, {start_threads(comm, options), options.cache_tokens, options.packed_cache},
              progress),
      loop_(comm, worker_),
      info_(worker_.info()) {
  fail_together(comm, [&] {
    if (!comm.is_root()) return;
    complete(info_, plan_);
    root_ = std::make_unique<Root>(plan_, info_, options);
  });
}

void Engine::Impl::step() {
  PlannedStep planned = leader().plan();
  if (planned.chunks.empty()) return;
  const Stopwatch step_watch;
  const Outputs outputs =
      loop_.run(planned.forward, [&](std::size_t output) { return planned.mask(output); });
  const double step_seconds = step_watch.seconds();
  const Stopwatch watch;
  const TraceSpan span(comm_, Activity::sample, planned.forward.outputs.size());
  leader().settle(planned, outputs, step_seconds);
  root_->settle_seconds += watch.seconds();
}

void Engine::Impl::serve(Request request, const EventSink& on_event) {
  bool ended = false;
  std::string error;
  std::exception_ptr thrown;
  RequestId id = 0;
  id = leader().submit(std::move(request), [&](const Event& event) {
    ended = std::holds_alternative<RequestFinished>(event) ||
            std::holds_alternative<RequestCancelled>(event) || std::holds_alternative<RequestRejected>(event);
    if (const auto* token = std::get_if<TokenEvent>(&event)) error = token->error;
    if (const auto* rejected = std::get_if<RequestRejected>(&event)) error = rejected->error;
    if (thrown) return;
    try {
      on_event(event);
    } catch (...) {
      thrown = std::current_exception();
      leader().cancel(id);
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
    // Between steps the other ranks wait for rank 0, so its times are theirs.
    TimeParts& time = report.time;
    const double between = std::max(0.0, wall - time.total());
    const double settling = std::min(root_->settle_seconds, between);
    time.sampling += settling;
    time.control = between - settling;
  }
  return reports;
}

void Engine::Impl::reset_statistics() {
  loop_.run(ResetStatistics{});
  root_->settle_seconds = 0.0;
}

Engine::Engine(Communicator& comm, const EngineOptions& options, const Progress& progress)
    : impl_(std::make_unique<Impl>(comm, options, progress)), is_root_(comm.is_root()) {}

Engine::~Engine() {
  if (is_root_) impl_->loop_.stop(std::uncaught_exceptions() > 0 ? 1 : 0);
}

const EngineInfo& Engine::info() const { return impl_->info_; }
int Engine::follow() { return tp::follow(impl_->comm_, impl_->worker_); }
std::vector<RankReport> Engine::reports() { return impl_->reports(); }
TimeParts Engine::own_time() const { return impl_->worker_.own_time(); }
void Engine::reset_statistics() { impl_->reset_statistics(); }
void Engine::start_trace() { impl_->loop_.run(StartTrace{}); }
std::vector<RankTrace> Engine::traces() { return impl_->loop_.run(GatherTrace{}).traces; }

bool Engine::has_tokenizer() const { return impl_->tokenizer() != nullptr; }

std::vector<TokenId> Engine::encode(std::string_view text, bool add_special) const {
  return encode(MarkedText(std::string(text)), add_special);
}

std::vector<TokenId> Engine::encode(const MarkedText& text, bool add_special) const {
  require<CheckpointError>(has_tokenizer(), "cannot tokenize: the model has no tokenizer; give token ids");
  return impl_->tokenizer()->encode(text, add_special ? AddSpecial::yes : AddSpecial::no);
}

std::string Engine::decode(std::span<const TokenId> ids) const {
  require<CheckpointError>(has_tokenizer(), "cannot detokenize: the model has no tokenizer");
  return impl_->tokenizer()->decode(ids, SkipSpecial::yes);
}

bool Engine::is_special(TokenId id) const { return has_tokenizer() && impl_->tokenizer()->is_special(id); }

RequestId Engine::submit(Request request) {
  return submit(std::move(request), [&events = impl_->root_->events](const Event& event) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) events.push_back(*token);
  });
}

RequestId Engine::submit(Request request, EventSink sink) {
  return impl_->leader().submit(std::move(request), std::move(sink));
}

void Engine::cancel(RequestId request) { impl_->leader().cancel(request); }
LeaderStatus Engine::status() const { return impl_->leader().status(); }
bool Engine::has_work() const { return impl_->leader().has_work() || !impl_->root_->events.empty(); }
void Engine::wake() { impl_->leader().wake(); }

bool Engine::wait_for_work(std::chrono::nanoseconds timeout) {
  return has_work() || impl_->leader().wait_for_work(timeout);
}

std::vector<TokenEvent> Engine::step() {
  impl_->step();
  return std::exchange(impl_->root_->events, {});
}

void Engine::logits(std::span<const TokenId> tokens,
                    const std::function<void(std::size_t, std::span<const float>)>& on_row,
                    AttentionMask attention) {
  Request request;
  request.prompt.assign(tokens.begin(), tokens.end());
  request.max_tokens = 0;
  request.prompt_logits = true;
  request.attention = attention;
  impl_->serve(std::move(request), [&](const Event& event) {
    const auto* rows = std::get_if<PromptLogits>(&event);
    for (std::size_t i = 0; rows != nullptr && i < rows->positions(); ++i)
      on_row(rows->first + i, rows->row(i));
  });
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
