#include "tp/engine.h"

#include "model/architectures.h"
#include "model/generation_config.h"
#include "model/kernels/isa.h"
#include "model/kernels/matmul.h"
#include "model/tokenizer/tokenizer_files.h"
#include "parallel/agreement.h"
#include "parallel/archive.h"
#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "parallel/hash.h"
#include "parallel/processors.h"
#include "parallel/stopwatch.h"
#include "parallel/tracer.h"
#include "runtime/engine_impl.h"
#include "runtime/memory_plan.h"
#include "tp/version.h"

#include <algorithm>
#include <exception>
#include <new>

#include <omp.h>

namespace tp {
namespace {

constexpr const char* kNoMemory =
    "cannot continue the prompt: out of memory; send fewer or shorter requests at once, or use more hosts";

TokenEvent failure_of(std::uint64_t request, int sample, const char* error) {
  TokenEvent event;
  event.request = request;
  event.sample = sample;
  event.finish_reason = FinishReason::error;
  event.error = error;
  return event;
}

}  // namespace

Engine::Impl::Impl(Communicator& comm, const EngineOptions& options, const Progress& progress) : comm_(comm) {
  // All ranks see a disagreement: together they also know that the others have.
  fail_together(comm, [&] {
    require_agreement(comm, hash_of(kVersion), "the program's version",
                      "start the same program on every host");
  });
  fail_together(comm, [&] {
    if (comm.is_root()) plan_ = make_plan(options, comm.size());
  });
  broadcast_object(comm, plan_);
  if (!options.model.empty()) plan_.model = options.model.string();
  // Ranks choose experts by themselves, and near a tie the last bit of a norm decides.
  if (plan_.config.num_experts != 0) {
    fail_together(comm, [&] {
      require_agreement(comm, hash_of(kernels::name_of(kernels::active_isa())),
                        "the instruction set, on which the choice of experts depends",
                        "set TP_ISA to one that every host has, for example avx2");
    });
  }
  info_.threads = options.threads != 0 ? options.threads : default_threads(comm.local_size());
  omp_set_num_threads(static_cast<int>(info_.threads));
  load(options.cache_tokens, progress);
  if (comm.is_root())
    fail_together(comm, [&] { set_up_root(); });
  else
    fail_together(comm, [] {});
}

void Engine::Impl::load(std::size_t cache_tokens, const Progress& progress) {
  const Stopwatch watch;
  const RankOf part{comm_.rank(), comm_.size()};
  DecoderSpec spec;
  std::unique_ptr<WeightSource> source;
  fail_together(comm_, [&] {
    spec = make_spec(plan_.config);
    spec.max_position_embeddings = plan_.max_length;
    source = open_weights(plan_);
  });
  fail_together(comm_, [&] {
    require_agreement(comm_, source->fingerprint(), fmt::format("the checkpoint in {}", plan_.model),
                      "copy the same files to every host");
  });
  fit_into_memory(spec, *source, cache_tokens);
  fail_together(comm_, [&] {
    kernels::prepare_matmul();
    const auto share = static_cast<double>(count_parameters(spec)) / static_cast<double>(comm_.size());
    decoder_.emplace(spec, *source, part, plan_.weight_type(), [&](std::size_t elements) {
      if (progress) progress(std::min(1.0, static_cast<double>(elements) / share));
    });
    const StepLimits limits = plan_.step_limits(info_.threads);
    cache_.emplace(spec.blocks.size(), plan_.cache_blocks,
                   kv_layout(spec.blocks.front().attention, part, plan_.kv_type, plan_.block_size));
    workspace_.emplace(decoder_workspace(spec, part, limits));
  });
  executor_.emplace(comm_, *decoder_, *cache_, *workspace_, spec.vocab_size);
  info_.load_seconds = watch.seconds();
  fill_info(spec, *source);
}

// Before anything large is allocated: the kernel ends processes that take more memory than there is.
void Engine::Impl::fit_into_memory(const DecoderSpec& spec, const WeightSource& source,
                                   std::size_t cache_tokens) {
  const Footprint footprint(spec, plan_, source.types(), info_.threads);
  RankMemory own;
  fail_together(comm_, [&] { own = describe_memory(footprint, {comm_.rank(), comm_.size()}); });
  const std::vector<RankMemory> ranks = gather_values(comm_, own);
  fail_together(comm_, [&] {
    if (!comm_.is_root()) return;
    CachePlan cache = plan_cache(plan_, footprint, ranks, comm_.placement(), cache_tokens);
    plan_.cache_blocks = cache.blocks;
    info_.cache_notice = std::move(cache.notice);
  });
  broadcast_object(comm_, plan_);
}

void Engine::Impl::fill_info(const DecoderSpec& spec, const WeightSource& source) {
  info_.config = plan_.config;
  info_.parameters = count_parameters(spec);
  const std::vector<TypeUse> stored = source.types();
  const WeightType usual = !stored.empty() && stored.front().held_as
                               ? *stored.front().held_as
                               : lossless_type(plan_.config.torch_dtype);
  info_.weights = name_of(plan_.weight_type().value_or(usual));
  if (!plan_.weight_type()) info_.rounded = text_of_rounded(stored);
  info_.kv_type = name_of(plan_.kv_type);
  info_.unused_tensors = decoder_->unused_tensors();
  info_.weight_bytes = decoder_->weight_bytes();
  info_.stored_bytes = source.stored_bytes();
  info_.bytes_read = source.bytes_read();
  info_.cache_tokens = plan_.cache_blocks * plan_.block_size;
  info_.cache_bytes = cache_->capacity_bytes();
  info_.workspace_bytes = workspace_->capacity_bytes();
  info_.max_length = plan_.max_length;
}

void Engine::Impl::set_up_root() {
  const std::filesystem::path folder =
      plan_.synthetic ? std::filesystem::path(plan_.model).parent_path() : std::filesystem::path(plan_.model);
  if (!plan_.synthetic && holds_tokenizer(folder)) {
    tokenizer_ = Tokenizer::load(folder);
    tokenizer_->pad_to(plan_.config.vocab_size);
  }
  const GenerationConfig defaults = plan_.synthetic ? GenerationConfig{} : load_generation_config(folder);
  info_.default_sampling = defaults.sampling;
  info_.eos_token_ids = defaults.eos_token_ids.empty() ? plan_.config.eos_token_ids : defaults.eos_token_ids;
  blocks_.emplace(plan_.cache_blocks, plan_.block_size);
  scheduler_.emplace(*blocks_, SchedulerLimits{.prefill_chunk = plan_.prefill_chunk,
                                               .step_tokens = plan_.step_limits(1).tokens,
                                               .max_sequences = plan_.max_sequences,
                                               .vocab_size = plan_.config.vocab_size});
}

int Engine::Impl::follow() {
  Step step;
  while (true) {
    step = Step();
    broadcast_object(comm_, step);
    if (step.kind == Step::Kind::stop) return step.exit_status;
    run(step, {});
  }
}

void Engine::Impl::stop_followers(int exit_status) noexcept {
  if (broken_) return;
  try {
    Step step;
    step.kind = Step::Kind::stop;
    step.exit_status = exit_status;
    broadcast_object(comm_, step);
  } catch (const std::exception&) {
    // They are gone already; whoever made them go says why.
  }
}

// Rank 0: tells the others of a step and runs it with them.
void Engine::Impl::lead(Step& step, const OutputSink& sink) {
  try {
    broadcast_object(comm_, step);
    run(step, sink);
  } catch (const std::exception& error) {
    broken_ = true;
    throw LockstepError(error.what());
  }
}

void Engine::Impl::run(const Step& step, const OutputSink& sink) {
  switch (step.kind) {
    case Step::Kind::forward:
      return run_forward(step, sink);
    case Step::Kind::report:
      return report();
    case Step::Kind::reset_stats:
      return reset_counts();
    case Step::Kind::start_trace:
      barrier(comm_);
      return comm_.tracer().start();
    case Step::Kind::trace:
      traces_ = gather_traces(comm_);
      return;
    case Step::Kind::stop:
      return;
  }
}

std::uint64_t Engine::Impl::submit(Request request) {
  check_request(request);
  try {
    return enqueue(std::move(request));
  } catch (const std::bad_alloc&) {
    throw RequestError(kNoMemory);
  }
}

std::uint64_t Engine::Impl::enqueue(Request request) {
  auto state = std::make_shared<RequestState>();
  state->id = next_id_;
  state->first_sequence = next_id_ + 1;
  state->seed = request.sampling.seed ? *request.sampling.seed : draw_seed();
  state->max_tokens = std::min<std::size_t>(static_cast<std::size_t>(request.max_tokens),
                                            plan_.max_length - request.prompt.size());
  state->request = std::move(request);
  // For the one penalty that counts the prompt's tokens.
  if (state->request.sampling.repetition_penalty != 1.0F) state->history.add_prompt(state->request.prompt);
  if (tokenizer_) {
    state->text.emplace(TextStream{Detokenizer(*tokenizer_, state->request.prompt, SkipSpecial::yes),
                                   StopMatcher(state->request.stop)});
  }
  const std::uint64_t id = state->id;
  next_id_ += 1 + static_cast<std::uint64_t>(state->request.n);
  scheduler_->add(std::move(state));
  return id;
}

void Engine::Impl::check_request(const Request& request) const {
  request.validate();
  const std::size_t prompt = request.prompt.size();
  require<RequestError>(
      prompt < plan_.max_length,
      "prompt has {} tokens but a sequence holds {} (max_position_embeddings, or --max-length), one "
      "of them generated; shorten the prompt",
      prompt, plan_.max_length);
  check_token_ids(request.prompt);
  const std::size_t longest =
      std::min<std::size_t>(plan_.max_length, prompt + static_cast<std::size_t>(request.max_tokens));
  require<RequestError>(
      longest <= info_.cache_tokens,
      "prompt and continuation have up to {} tokens but the cache holds {}; lower --max-tokens or "
      "raise --cache-tokens",
      longest, info_.cache_tokens);
  require<RequestError>(request.stop.empty() || tokenizer_,
                        "stop texts need a tokenizer, but there is none in {}", plan_.model);
}

void Engine::Impl::check_token_ids(std::span<const TokenId> ids) const {
  for (const TokenId id : ids) {
    require<RequestError>(
        id >= 0 && static_cast<std::size_t>(id) < plan_.config.vocab_size,
        "prompt has token id {}, but the vocabulary has the ids 0 to {}; is it this model's prompt?", id,
        plan_.config.vocab_size - 1);
  }
}

void Engine::Impl::cancel(std::uint64_t request) { scheduler_->cancel(request); }

std::vector<TokenEvent> Engine::Impl::step() {
  PlannedStep planned = scheduler_->plan();
  std::vector<TokenEvent> events;
  events.reserve(planned.failed.size() + planned.outputs.size());
  for (const auto& [request, sample] : planned.failed)
    events.push_back(failure_of(request, sample, kNoMemory));
  if (planned.step.tokens.empty()) return events;
  std::vector<Candidates> candidates(planned.outputs.size());
  const OutputSink sink{
      .on_candidates = [&](std::size_t index, Candidates found) { candidates[index] = std::move(found); },
      .on_row =
          [&](std::size_t index, std::span<const float> logits) {
            const ShardCandidates whole = shard_candidates(logits, 0, logits.size());
            candidates[index] = merge_candidates({&whole, 1});
          }};
  lead(planned.step, sink);
  scheduler_->mark_computed();

  const Stopwatch watch;
  const TraceSpan span(comm_, Activity::sample, candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i)
    events.push_back(advance(*planned.outputs[i], candidates[i]));
  sampling_seconds_ += watch.seconds();
  scheduler_->remove_finished();
  return events;
}

// The next token of a sequence and what follows from it. What goes wrong with it ends this sequence alone.
TokenEvent Engine::Impl::advance(Sequence& sequence, const Candidates& candidates) {
  const auto fail = [&](const char* error) {
    sequence.finish_reason = FinishReason::error;
    return failure_of(sequence.state->id, sequence.sample, error);
  };
  try {
    return choose_token(sequence, candidates);
  } catch (const RequestError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory);
  }
}

TokenEvent Engine::Impl::choose_token(Sequence& sequence, const Candidates& candidates) {
  const RequestState& state = *sequence.state;
  const SamplingParams& sampling = state.request.sampling;
  const DrawKey key{state.seed, static_cast<std::uint64_t>(sequence.sample), sequence.tokens.size()};
  Choice choice = sampler_.choose(candidates, sampling, sequence.history, key);
  sequence.tokens.push_back(choice.id);
  sequence.history.add_generated(choice.id);
  TokenEvent event;
  event.request = state.id;
  event.sample = sequence.sample;
  event.token = choice.id;
  event.cached_tokens = sequence.cached_tokens;
  if (sampling.logprobs >= 0) {
    event.logprob = TokenLogprob{choice.id, choice.logprob};
    event.top_logprobs = std::move(choice.top_logprobs);
  }
  sequence.finish_reason = finish_reason_of(sequence, choice.id);
  if (sequence.text) add_text(event, sequence);
  event.finish_reason = sequence.finish_reason;
  return event;
}

FinishReason Engine::Impl::finish_reason_of(const Sequence& sequence, TokenId token) const {
  const Request& request = sequence.state->request;
  const auto has_token = [&](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  const bool is_eos = has_token(info_.eos_token_ids) || has_token(request.stop_ids);
  if (is_eos && !request.ignore_eos) return FinishReason::stop;
  if (sequence.generated_tokens() >= sequence.state->max_tokens) return FinishReason::length;
  return FinishReason::none;
}

// The text that the event's token makes certain; a stop text in it finishes the sequence.
void Engine::Impl::add_text(TokenEvent& event, Sequence& sequence) {
  auto& [detokenizer, stops] = *sequence.text;
  event.text = stops.push(detokenizer.push(event.token));
  if (sequence.finished()) {
    event.text += stops.push(detokenizer.finish());
    event.text += stops.finish();
  }
  if (stops.matched()) sequence.finish_reason = FinishReason::stop;
}

Engine::Engine(Communicator& comm, EngineOptions options, const Progress& progress)
    : impl_(std::make_unique<Impl>(comm, options, progress)), is_root_(comm.is_root()) {}

Engine::~Engine() {
  if (is_root_) impl_->stop_followers(std::uncaught_exceptions() > 0 ? 1 : 0);
}

std::vector<RankReport> Engine::reports() { return impl_->reports(); }
void Engine::reset_statistics() { impl_->reset_statistics(); }
void Engine::start_trace() { impl_->start_trace(); }
std::vector<RankTrace> Engine::traces() { return impl_->traces(); }
const EngineInfo& Engine::info() const { return impl_->info(); }
int Engine::follow() { return impl_->follow(); }
bool Engine::has_tokenizer() const { return impl_->tokenizer() != nullptr; }

std::vector<TokenId> Engine::encode(std::string_view text, bool add_special) const {
  require<CheckpointError>(has_tokenizer(), "cannot tokenize: the model has no tokenizer; give --tokens");
  return impl_->tokenizer()->encode(text, add_special ? AddSpecial::yes : AddSpecial::no);
}

std::string Engine::decode(std::span<const TokenId> ids) const {
  require<CheckpointError>(has_tokenizer(), "cannot make text of ids: the model has no tokenizer");
  return impl_->tokenizer()->decode(ids, SkipSpecial::yes);
}

bool Engine::is_special(TokenId id) const { return has_tokenizer() && impl_->tokenizer()->is_special(id); }

std::uint64_t Engine::submit(Request request) { return impl_->submit(std::move(request)); }
void Engine::cancel(std::uint64_t request) { impl_->cancel(request); }
bool Engine::has_work() const { return impl_->has_work(); }
std::vector<TokenEvent> Engine::step() { return impl_->step(); }

void Engine::logits(std::span<const TokenId> tokens,
                    const std::function<void(std::size_t, std::span<const float>)>& on_row) {
  impl_->logits(tokens, on_row);
}

std::vector<double> Engine::logprobs(std::span<const TokenId> tokens, std::size_t first) {
  return impl_->logprobs(tokens, first);
}

}  // namespace tp
