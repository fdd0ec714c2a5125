#include "runtime/serve/generation.h"

#include "model/files/json_text.h"
#include "runtime/api/begin_completion.h"
#include "runtime/api/openai_response.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kMaxChoices = 4096;  // per call

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

// The mean log-probability of the tokens, which ranks samples for `best_of`.
double score_of(const Continuation& continuation) {
  double sum = 0.0;
  for (const ScoredToken& token : continuation.logprobs) sum += token.chosen.logprob;
  return continuation.logprobs.empty() ? 0.0 : sum / static_cast<double>(continuation.logprobs.size());
}

}  // namespace

Generation::Generation(Service& service, std::shared_ptr<HttpExchange> exchange,
                       std::unique_ptr<AnswerFormat> format, std::optional<Record> record)
    : Call(service, std::move(exchange)), format_(std::move(format)), record_(std::move(record)) {
  if (record_) replay_.emplace(std::exchange(record_->tokens, {}));
}

void Generation::start(Service& service, std::shared_ptr<HttpExchange> exchange,
                       std::unique_ptr<AnswerFormat> format, ApiCall call, std::optional<Record> record) {
  const auto generation =
      std::make_shared<Generation>(service, std::move(exchange), std::move(format), std::move(record));
  generation->answer_.call.names = call.names;
  std::vector<Request> requests;
  try {
    requests = generation->make_requests(std::move(call));
  } catch (const std::exception& error) {
    throw ApiException(generation->error_of(error));
  }
  generation->Call::start(std::move(requests), "prompt");
}

ApiError Generation::error_of(const std::exception& error) const {
  const std::string member = answer_.completions.empty() ? "" : answer_.completions.back().constraint_member;
  const std::pair<std::string_view, std::string_view> constraint[] = {{"constraint", member}};
  const MemberNames engines = member.empty() ? MemberNames() : MemberNames(constraint);
  return renamed(renamed(api_error_of(error), engines), answer_.call.names);
}

std::vector<Request> Generation::make_requests(ApiCall call) {
  const AnswerFacts& facts = call.prompts.front().facts;
  const bool is_chat = facts.form == AnswerFacts::Form::chat_completion;
  const std::optional<std::string> adapter = service_.adapter_of(facts.model);
  require<RequestError>(!is_chat || service_.model.chat.has_value(), "{}", service_.model.chat_error);
  fix_identity(call, is_chat ? format_->id_prefix() : "cmpl-");
  answer_.model = facts.model.empty() ? service_.model_name() : facts.model;
  std::vector<Request> requests;
  std::size_t choices = 0;
  for (const ApiRequest& prompt : call.prompts) {
    Completion& completion = answer_.completions.emplace_back(begin(call, prompt));
    if (adapter && !prompt.settings.contains("adapter")) completion.request.adapter = adapter;
    const auto samples = static_cast<std::size_t>(completion.request.n);
    choices += samples;
    require<RequestError>(choices <= kMaxChoices,
                          "`n`: expected at most {} continuations of all prompts, found more", kMaxChoices);
    completion.continuations.resize(samples);
    for (std::size_t sample = 0; sample < samples; ++sample)
      completion.continuations[sample].calls_id = fmt::format("{}/{}/{}", answer_.id, paces_.size(), sample);
    if (replay_ && can_start_in_the_middle(completion.request))
      completion.request.generated = replay_->generated(paces_.size());
    paces_.emplace_back(samples);
    requests.push_back(completion.request);
  }
  call.prompts.clear();  // they may be large
  answer_.call = std::move(call);
  steps_before_ = service_.steps();
  return requests;
}

// Sets what the record fixes: the answer's id and time, and the seeds.
void Generation::fix_identity(ApiCall& call, const char* prefix) {
  answer_.id = record_ ? prefix + record_->id : new_response_id(prefix);
  answer_.created = record_ ? record_->created : static_cast<std::int64_t>(std::time(nullptr));
  if (!record_) return;
  constexpr std::uint64_t kSeeds = std::uint64_t{1} << 53;
  std::uint64_t seed = record_->seed;
  for (ApiRequest& prompt : call.prompts) prompt.settings.emplace("seed", seed++ % kSeeds);
}

// Other requests are computed again from the beginning.
bool Generation::can_start_in_the_middle(const Request& request) const {
  return service_.model.engine->info().kind != ModelKind::diffusion && !request.beam_search &&
         !request.asks_about_prompt();
}

Completion Generation::begin(const ApiCall& call, const ApiRequest& prompt) const {
  const OpenModel& model = service_.model;
  Completion completion =
      begin_completion(prompt, model.defaults, *model.engine, model.chat ? &*model.chat : nullptr);
  Request& request = completion.request;
  const EngineInfo& info = model.engine->info();
  const std::size_t room = std::min(info.options.max_length, info.options.cache_tokens);
  if (!prompt.settings.contains("max_tokens")) {
    const auto all = static_cast<int>(room - std::min(room - 1, request.prompt.size()));
    const int usual = call.usual_max_tokens;
    request.max_tokens = default_max_tokens(info, request, usual != 0 ? std::min(usual, all) : all);
  }
  request.report_progress = call.stream && call.return_progress;
  if (call.best_of != 0) request.sampling.logprobs = std::max(request.sampling.logprobs, 0);
  return completion;
}

void Generation::on_submitted() {
  if (answer_.call.stream) ping_later();
}

void Generation::on_event(std::size_t prompt, const Event& event, Clock::time_point time) {
  Completion& completion = answer_.completions[prompt];
  if (const auto* token = std::get_if<TokenEvent>(&event)) return on_token(prompt, *token, time);
  if (const auto* logprobs = std::get_if<PromptLogprobs>(&event)) {
    completion.add(*logprobs);
  } else if (const auto* finished = std::get_if<RequestFinished>(&event)) {
    add(finished->times);
  } else if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
    add(cancelled->times);
  } else if (const auto* progress = std::get_if<PrefillProgress>(&event)) {
    if (!answer_.call.stream) return;
    begin_stream();
    send(format_->progress(answer_, progress->total, progress->cached, progress->processed));
  }
}

void Generation::on_token(std::size_t prompt, TokenEvent event, Clock::time_point time) {
  const bool is_known = replay_ && replay_->adopt(prompt, event);
  const Continuation& continuation = answer_.completions[prompt].add(event);
  if (event.finish_reason == FinishReason::error) {
    return end_with({.status = 500, .message = continuation.error});
  }
  if (event.finish_reason == FinishReason::cancelled) return;
  if (!is_known) measure(prompt, event, time);
  if (!answer_.call.stream && !record_) return;
  begin_stream();
  std::string events = answer_.call.stream ? format_->token(answer_, prompt, event) : "";
  if (!is_known) send(std::move(events), record_ ? mark_of(prompt, event) : "");
}

void Generation::measure(std::size_t prompt, const TokenEvent& event, Clock::time_point time) {
  Pace& pace = paces_[prompt][static_cast<std::size_t>(event.sample)];
  const bool is_first = !std::exchange(pace.has_begun, true);
  const double seconds = seconds_between(is_first ? came_ : pace.last, time);
  if (is_first && first_token_ == 0.0) first_token_ = seconds;
  service_.metrics.count_token(is_first, seconds);
  pace.last = time;
}

void Generation::add(const RequestTimes& times) {
  const auto known = [](Clock::time_point time) { return time != Clock::time_point{}; };
  AnswerTimes& sum = answer_.times;
  if (known(times.first_scheduled))
    sum.queued = std::max(sum.queued, seconds_between(times.queued, times.first_scheduled));
  sum.restored_tokens += times.restored_tokens;
  sum.restoring = std::max(sum.restoring, times.restore_seconds);
  if (known(times.first_token)) {
    sum.prefill = std::max(sum.prefill, seconds_between(times.first_scheduled, times.first_token));
    sum.decode = std::max(sum.decode, seconds_between(times.first_token, times.finished));
  }
}

// The stream begins with its first event. Until then an error can still set the status.
void Generation::begin_stream() {
  if (std::exchange(is_streaming_, true)) return;
  const bool is_whole = !answer_.call.stream;
  HttpHeaders headers = service_.headers_for(exchange().request());
  if (record_) headers.emplace_back(gateway_header::kMarks, is_whole ? "whole" : "stream");
  if (!is_whole) {
    headers.emplace_back("Cache-Control", "no-cache");
    headers.emplace_back("X-Accel-Buffering", "no");  // stops nginx from buffering events
  }
  exchange().begin_stream({.content_type = is_whole ? "application/json" : "text/event-stream; charset=utf-8",
                           .headers = std::move(headers)});
  if (is_whole) return;
  std::string events = format_->begin(answer_);
  if (!record_ || !record_->begun) send(std::move(events));
}

void Generation::send(std::string events, std::string_view mark) {
  if (record_) events += mark_comment(mark);
  exchange().write(std::move(events));
  last_sent_ = Clock::now();
}

// Ends a marked stream whose answer is not streamed.
void Generation::end_marked(std::string body, int status) {
  send(std::move(body) + "\n\n", fmt::format("whole {}", status));
  exchange().end_stream();
}

// Proxies close idle connections.
void Generation::ping_later() {
  service_.http->post_after(service_.options.ping_time, [this, weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    post([this] {
      if (Clock::now() - last_sent_ >= service_.options.ping_time / 2) {
        begin_stream();
        send(": ping\n\n");
      }
      ping_later();
    });
  });
}

void Generation::send_error(const ApiError& error) {
  if (is_streaming_ && record_ && error.job_ends) {
    send("", "lost");
    return exchange().end_stream();
  }
  if (is_streaming_ && !answer_.call.stream)
    return end_marked(json_text(format_->error(error)), error.status);
  if (is_streaming_) {
    send(format_->error_event(error), "end");
    return exchange().end_stream();
  }
  HttpResponse response = service_.response_of(exchange().request(), error);
  response.body = json_text(format_->error(error));
  exchange().respond(std::move(response));
}

void Generation::finish() {
  for (Completion& completion : answer_.completions) {
    for (Continuation& continuation : completion.continuations) {
      // No token was requested, and none was generated.
      if (!continuation.finished()) continuation.finish_reason = FinishReason::length;
    }
  }
  const StepSeconds steps = service_.steps();
  answer_.times.compute = steps.compute - steps_before_.compute;
  answer_.times.collectives = steps.collectives - steps_before_.collectives;
  answer_.times.waiting = steps.waiting - steps_before_.waiting;
  choose_best();
  if (answer_.call.stream) {
    begin_stream();
    send(format_->end(answer_), "end");
    exchange().end_stream();
  } else if (is_streaming_) {
    end_marked(json_text(format_->body(answer_)), 200);
  } else {
    service_.respond_json(exchange(), 200, format_->body(answer_));
  }
  close(200, std::string(answer_.continuation().finish_name()));
}

void Generation::choose_best() {
  if (answer_.call.best_of == 0) return;
  const std::size_t generated = answer_.generated_tokens();
  for (Completion& completion : answer_.completions) {
    std::ranges::stable_sort(completion.continuations, std::greater<>(), score_of);
    completion.continuations.resize(static_cast<std::size_t>(answer_.call.n));
    if (answer_.call.hides_logprobs) {
      for (Continuation& continuation : completion.continuations) continuation.logprobs.clear();
    }
  }
  answer_.discarded_tokens = generated - answer_.generated_tokens();
}

LoggedRequest Generation::usage() const {
  return {.id = answer_.id,
          .prompt_tokens = answer_.prompt_tokens(),
          .cached_tokens = answer_.cached_tokens(),
          .generated_tokens = answer_.generated_tokens(),
          .queued = answer_.times.queued,
          .first_token = first_token_,
          .warnings = answer_.call.warnings};
}

}  // namespace tp
