#include "runtime/modes/unmasker.h"

#include "runtime/sampling/random_draw.h"
#include "runtime/scheduling/accept.h"
#include "tp/internal/prompt_too_long.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace tp {

using Clock = RequestTimes::Clock;

// A continuation.
struct Unmasker::Run {
  explicit Run(UnmaskedText masked) : text(std::move(masked)) {}

  UnmaskedText text;
  Sequence sequence{};                // tokens that the sink has received
  std::vector<Proposal> proposals{};  // proposals of the current pass
  RequestId block = 0;                // PassCache::key or PassCanvas::key of the current block; 0: none
  RequestId pass = 0;                 // number of the current pass; guarded by the mutex
  bool ended = false;
};

struct Unmasker::Job {
  std::shared_ptr<RequestState> state;
  UnmaskingPlan plan;
  std::vector<Run> runs{};
  bool cancelled = false;  // guarded by the mutex
};

namespace {

// Throws RequestError for requests that passes in any order cannot honour.
void check_fits(const Request& request, const std::string& model) {
  const auto refuse = [&](bool asked, std::string_view what) {
    require<RequestError>(!asked,
                          "cannot unmask tokens with {}: {} is a diffusion language model, which unmasks "
                          "tokens in any order and has temperature, top_k, top_p and a seed; leave it out",
                          what, model);
  };
  const SamplingParams& sampling = request.sampling;
  refuse(request.constraint.has_value(), "a constraint");
  refuse(request.beam_search.has_value(), "beam search");
  refuse(static_cast<bool>(request.allowed_tokens), "`allowed_tokens`");
  refuse(request.thinking.has_value(), "a limit of thinking (`max_thinking_tokens`)");
  refuse(!request.bad_words.empty() || !request.bad_words_ids.empty(), "`bad_words`");
  refuse(request.min_tokens > 0, "`min_tokens`");
  refuse(sampling.repetition_penalty != 1.0F, "`repetition_penalty`");
  refuse(sampling.presence_penalty != 0.0F, "`presence_penalty`");
  refuse(sampling.frequency_penalty != 0.0F, "`frequency_penalty`");
  refuse(sampling.min_p != 0.0F, "`min_p`");
  refuse(!sampling.logit_bias.empty(), "`logit_bias`");
  refuse(sampling.logprobs >= 0, "`logprobs`");
  refuse(request.asks_about_prompt(), "a question about the prompt in the same request");
}

// Gives every pass its own random draws.
std::uint64_t seed_of_pass(std::uint64_t seed, int sample, std::size_t pass) {
  return RandomDraw({.seed = seed, .sample = static_cast<std::uint64_t>(sample), .position = pass}).bits(0);
}

}  // namespace

Unmasker::Unmasker(Leader& leader, const LeaderOptions& options, const Tokenizer* tokenizer)
    : leader_(leader),
      model_(options.model()),
      spec_(*options.diffusion),
      canvas_(options.generation.canvas),
      vocab_size_(options.vocab_size),
      cache_(options.engine.unmask_cache),
      max_length_(options.engine.max_length),
      max_canvas_(options.bidirectional ? options.indivisible_tokens() : options.engine.max_length),
      eos_token_ids_(options.eos_token_ids),
      tokenizer_(tokenizer) {}

std::shared_ptr<Unmasker::Job> Unmasker::make_job(Request request, EventSink sink) const {
  request.validate();
  check_fits(request, model_);
  const std::size_t prompt = request.prompt.size();
  const std::size_t max = std::min(max_length_, max_canvas_);
  require_room(prompt, prompt == max ? max - 1 : max,
               "prompt has {} tokens but a sequence has at most {} (max_position_embeddings, or "
               "`max_length`), one of them generated; shorten the prompt",
               prompt, max);
  require<RequestError>(request.stop.empty() || tokenizer_ != nullptr,
                        "stop texts need a tokenizer, but there is none in {}", model_);
  const auto asked = static_cast<std::size_t>(request.max_tokens);
  const std::size_t possible = std::min(asked, max - prompt);
  constexpr std::size_t kMaxTokens = std::size_t{1} << 24;  // all continuations are in memory at once
  require<RequestError>(
      static_cast<std::size_t>(request.n) * (prompt + possible) <= kMaxTokens,
      "cannot unmask {} continuations of {} tokens at once: expected at most {} tokens; lower `n`", request.n,
      prompt + possible, kMaxTokens);
  Unmasking settings = request.unmasking.value_or(Unmasking{});
  settings.cache = settings.cache.value_or(cache_);
  check_cache(*settings.cache);
  const bool is_divided = settings.steps != 0 || settings.block_length != 0;
  const UnmaskingPlan plan(spec_, settings, is_divided ? asked : possible, canvas_);
  check_canvases(settings, plan);
  const auto state = std::make_shared<RequestState>();
  state->seed = request.sampling.seed ? *request.sampling.seed : draw_seed();
  state->max_tokens = possible;
  state->open_samples = request.n;
  if (!request.ignore_eos) {
    state->end_ids = eos_token_ids_;
    state->end_ids.insert(state->end_ids.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  }
  state->request = std::move(request);
  state->sink = std::move(sink);
  state->times.queued = Clock::now();
  const auto job = std::make_shared<Job>(Job{.state = state, .plan = plan});
  for (int sample = 0; sample < state->request.n; ++sample) {
    Run& run = job->runs.emplace_back(
        UnmaskedText(plan, state->request.prompt, state->max_tokens, max, random_tokens(*state, sample)));
    run.sequence.state = state;
    run.sequence.sample = sample;
    run.sequence.tokens = state->request.prompt;
  }
  return job;
}

void Unmasker::check_canvases(const Unmasking& asked, const UnmaskingPlan& plan) const {
  const auto fits = [&](const std::vector<TokenId>& canvas) {
    const auto is_token = [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < vocab_size_; };
    return canvas.size() == plan.block_length && std::ranges::all_of(canvas, is_token);
  };
  require<RequestError>(asked.canvases.empty() || (spec_.canvas && std::ranges::all_of(asked.canvases, fits)),
                        "cannot begin with `canvases`: expected a model of canvases, and {} tokens of the "
                        "vocabulary (0 to {}) for "
                        "each canvas, found different ones for {}; leave them out",
                        plan.block_length, vocab_size_ - 1, model_);
}

// Passes draw their proposals with the seeds of the same numbers, and sample 0.
UnmaskedText::RandomTokens Unmasker::random_tokens(const RequestState& state, int sample) const {
  if (!spec_.canvas) return {};
  const auto& given = state.request.unmasking;
  return [=, seed = state.seed, vocab = std::uint64_t{vocab_size_},
          canvases = given ? given->canvases : std::vector<std::vector<TokenId>>()](std::size_t draw,
                                                                                    std::size_t position) {
    if (draw < canvases.size()) return canvases[draw][position];
    const RandomDraw random({.seed = seed_of_pass(seed, sample, draw), .sample = 1, .position = position});
    return static_cast<TokenId>((random.bits(0) >> 32) * vocab >> 32);
  };
}

void Unmasker::check_cache(UnmaskCache asked) const {
  if (asked == UnmaskCache::exact) return;
  require<RequestError>(spec_.block_length == 0,
                        "cannot unmask tokens with `unmask_cache` {}: expected exact, because finished "
                        "blocks of {} stay in the cache, which is exact; leave it out",
                        name_of(asked), model_);
  require<RequestError>(
      cache_ != UnmaskCache::exact,
      "cannot unmask tokens with `unmask_cache` {}: expected exact, because this engine of {} was started "
      "without it and has no memory for such a cache; leave it out, or start the engine with it",
      name_of(asked), model_);
}

RequestId Unmasker::submit(Request request, EventSink sink) {
  try {
    const std::shared_ptr<Job> job = make_job(std::move(request), std::move(sink));
    const RequestId id = job->state->id = leader_.reserve_id();
    {
      const std::lock_guard lock(mutex_);
      jobs_.emplace(id, job);
    }
    try {
      for (std::size_t run = 0; run < job->runs.size(); ++run) start_pass(job, run, run == 0);
    } catch (...) {
      cancel(id);  // cancels the passes that have begun
      const std::lock_guard lock(mutex_);
      jobs_.erase(id);
      throw;
    }
    return id;
  } catch (const std::bad_alloc&) {
    throw OverloadedError(kOutOfMemory);
  }
}

bool Unmasker::cancel(RequestId request) {
  std::vector<RequestId> passes;
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(request);
    if (found == jobs_.end()) return false;
    found->second->cancelled = true;
    for (const Run& run : found->second->runs) passes.push_back(run.pass);
  }
  for (const RequestId pass : passes) leader_.cancel(pass);
  return true;
}

void Unmasker::add_to(LeaderStatus& status) const {
  const std::lock_guard lock(mutex_);
  counts_.add_to(status);
}

// Throws OverloadedError for the first pass of a request if too many requests wait.
void Unmasker::start_pass(const std::shared_ptr<Job>& job, std::size_t index, bool is_first) {
  Run& run = job->runs[index];
  const Request& asked = job->state->request;
  const std::span<const TokenId> tokens = run.text.pass_tokens();
  Request pass;
  pass.prompt.assign(tokens.begin(), tokens.end());
  pass.max_tokens = 0;
  pass.sampling = {.temperature = asked.sampling.temperature,
                   .top_k = asked.sampling.top_k,
                   .top_p = asked.sampling.top_p,
                   .seed = seed_of_pass(job->state->seed, run.sequence.sample, run.text.passes())};
  pass.candidates_at = run.text.pass_rows();
  pass.proposal = job->plan.proposal();
  pass.cache_prompt = asked.cache_prompt;
  pass.cache_salt = asked.cache_salt;
  pass.adapter = asked.adapter;
  pass.priority = asked.priority;
  Pass about{.place = is_first ? Pass::Place::first : Pass::Place::later,
             .attention_block = job->plan.block_length};
  const bool leaves_state = spec_.canvas || job->plan.cache != UnmaskCache::exact;
  if (leaves_state && run.block == 0) run.block = leader_.reserve_id();
  if (spec_.canvas) {
    set_canvas(*job, run, pass, about);
  } else if (leaves_state) {
    about.cache = {.key = run.block,
                   .is_filled = run.text.uses_cache(),
                   .begin = run.text.pass_begin(),
                   .tokens = run.text.size()};
  }
  const RequestId number = leader_.submit_pass(
      std::move(pass), [this, job, index](const Event& event) { on_event(job, index, event); }, about);
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    run.pass = number;
    is_late = job->cancelled;
  }
  if (is_late) leader_.cancel(number);
}

// A request's temperature multiplies the schedule's. At 0, proposals are the most probable tokens, but
// entropies and soft embeddings follow the schedule all the same.
void Unmasker::set_canvas(const Job& job, Run& run, Request& request, Pass& pass) {
  const float asked = job.state->request.sampling.temperature;
  const CanvasProgress& canvas = run.text.canvas();
  request.proposal->greedy = asked == 0.0F;
  using Limits = std::numeric_limits<float>;
  const float temperature = canvas.temperature() * (asked == 0.0F ? 1.0F : asked);
  request.sampling.temperature = std::clamp(temperature, Limits::min(), Limits::max());  // 0 would be greedy
  pass.canvas = {.begin = run.text.canvas_begin(),
                 .key = run.block,
                 .has_room = run.text.continues_block(),
                 .has_next = !canvas.is_last_pass()};
}

void Unmasker::on_event(const std::shared_ptr<Job>& job, std::size_t index, const Event& event) {
  Run& run = job->runs[index];
  if (run.ended) return;
  if (const auto* proposals = std::get_if<PromptProposals>(&event)) {
    run.proposals.insert(run.proposals.end(), proposals->proposals.begin(), proposals->proposals.end());
  } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
    fail(*job, run, token->error);
  } else if (const auto* rejected = std::get_if<RequestRejected>(&event)) {
    fail(*job, run, rejected->error);
    end(job, run);
  } else if (std::holds_alternative<RequestCancelled>(event)) {
    run.sequence.finish_reason = FinishReason::cancelled;
    job->state->cancelled = true;
    end(job, run);
  } else if (const auto* finished = std::get_if<RequestFinished>(&event)) {
    RequestTimes& times = job->state->times;
    if (times.first_scheduled == Clock::time_point{}) times.first_scheduled = finished->times.first_scheduled;
    times.restored_tokens += finished->times.restored_tokens;
    times.restore_seconds += finished->times.restore_seconds;
    if (run.text.passes() == 0) run.sequence.cached_tokens = finished->cached_tokens;
    end_pass(job, index);
  }
}

void Unmasker::end_pass(const std::shared_ptr<Job>& job, std::size_t index) {
  Run& run = job->runs[index];
  try {
    if (!run.sequence.finished()) unmask(*job, run);
    if (!run.text.continues_block()) release_block(run);
    if (!run.sequence.finished()) return start_pass(job, index, false);
  } catch (const std::bad_alloc&) {
    fail(*job, run, kOutOfMemory);
  } catch (const Error& error) {
    fail(*job, run, error.what());
  }
  end(job, run);
}

// Emits the tokens that the pass has unmasked, and the tokens that extend the text without a gap.
void Unmasker::unmask(Job& job, Run& run) {
  const std::vector<Proposal> proposals = std::exchange(run.proposals, {});
  const EventSink& sink = job.state->sink;
  if (std::ranges::any_of(proposals, [](const Proposal& proposal) { return proposal.id < 0; })) {
    sink(accept(run.sequence, Chosen{.error = ChoiceError::not_numbers}, tokenizer_));
    return;
  }
  TokensUnmasked unmasked{.request = job.state->id, .sample = run.sequence.sample, .tokens = {}};
  unmasked.tokens = run.text.unmask(proposals);
  unmasked.pass = run.text.passes();
  sink(unmasked);
  while (!run.sequence.finished() && run.sequence.tokens.size() < run.text.unmasked_end()) {
    const TokenId token = run.text.token(run.sequence.tokens.size());
    const TokenEvent event = accept(run.sequence, Chosen{.id = token}, tokenizer_);
    if (event.error.empty()) {
      const std::lock_guard lock(mutex_);
      ++counts_.generated_tokens;
    }
    sink(event);
  }
}

void Unmasker::fail(Job& job, Run& run, const std::string& error) {
  if (!run.sequence.finished()) job.state->sink(tp::fail(run.sequence, error));
}

// Releases what passes have left for the next pass over the current block, if there is anything.
void Unmasker::release_block(Run& run) {
  if (run.block != 0) leader_.release_passes(std::exchange(run.block, 0));
}

// Ends a continuation; the last one also ends the request.
void Unmasker::end(const std::shared_ptr<Job>& job, Run& run) {
  run.ended = true;
  release_block(run);
  RequestState& state = *job->state;
  const bool is_last = --state.open_samples == 0;
  {
    const std::lock_guard lock(mutex_);
    count_end(counts_.finished, run.sequence.finish_reason);
    if (is_last) jobs_.erase(state.id);
  }
  if (!is_last) return;
  state.times.finished = Clock::now();
  const std::size_t cached = job->runs.front().sequence.cached_tokens;
  if (state.cancelled)
    state.sink(RequestCancelled{state.id, state.times, cached});
  else
    state.sink(RequestFinished{state.id, state.times, cached});
}

}  // namespace tp
