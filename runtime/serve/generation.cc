#include "runtime/serve/generation.h"

#include "runtime/api/openai_response.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <utility>

namespace tp {
namespace {

constexpr std::size_t kMaxChoices = 4096;  // of a call

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

bool is_chat(const ApiCall& call) { return call.prompts.front().form == ApiRequest::Form::chat_completion; }

// The mean log-probability of its tokens, by which samples are compared.
double score_of(const Continuation& continuation) {
  double sum = 0.0;
  for (const ScoredToken& token : continuation.logprobs) sum += token.chosen.logprob;
  return continuation.logprobs.empty() ? 0.0 : sum / static_cast<double>(continuation.logprobs.size());
}

}  // namespace

Generation::Generation(Service& service, std::shared_ptr<HttpExchange> exchange,
                       std::unique_ptr<AnswerFormat> format)
    : service_(service), exchange_(std::move(exchange)), format_(std::move(format)), queue_(service.events) {}

void Generation::start(Service& service, std::shared_ptr<HttpExchange> exchange,
                       std::unique_ptr<AnswerFormat> format, ApiCall call) {
  const auto generation = std::make_shared<Generation>(service, std::move(exchange), std::move(format));
  std::vector<Request> requests = generation->make_requests(std::move(call));
  service.enter(generation);
  // Events wait in the queue until everything has been submitted.
  generation->post([generation, requests = std::move(requests)] { generation->submit(requests); });
}

void Generation::post(std::function<void()> task) {
  queue_.post([self = shared_from_this(), task = std::move(task)] {
    try {
      task();
    } catch (const std::exception& error) {
      self->end_with(api_error_of(error));
    }
  });
}

void Generation::check(const ApiCall& call) const {
  const OpenModel& model = service_.model;
  service_.require_model(call.prompts.front().model);
  require<RequestError>(model.max_queue == 0 || call.prompts.size() <= model.max_queue,
                        "`prompt`: expected at most {} prompts, as many as may wait, found {}",
                        model.max_queue, call.prompts.size());
  require<RequestError>(!is_chat(call) || model.chat.has_value(), "{}", model.chat_error);
}

std::vector<Request> Generation::make_requests(ApiCall call) {
  check(call);
  const std::string& asked = call.prompts.front().model;
  answer_.id = new_response_id(is_chat(call) ? format_->id_prefix() : "cmpl-");
  answer_.created = static_cast<std::int64_t>(std::time(nullptr));
  answer_.model = asked.empty() ? service_.model_name() : asked;
  std::vector<Request> requests;
  std::size_t choices = 0;
  for (const ApiRequest& prompt : call.prompts) {
    const EngineRequest accepted = make_request(call, prompt);
    const Request& request = requests.emplace_back(accepted.request);
    choices += static_cast<std::size_t>(request.n);
    require<RequestError>(choices <= kMaxChoices,
                          "`n`: expected at most {} continuations of all prompts, found more", kMaxChoices);
    expect_answer_of(accepted);
  }
  answer_.call = std::move(call);
  for (ApiRequest& prompt : answer_.call.prompts) {  // which may be large
    prompt.text = std::string();
    prompt.ids.reset();
    prompt.conversation.reset();
  }
  open_prompts_ = requests.size();
  steps_before_ = service_.steps();
  return requests;
}

EngineRequest Generation::make_request(const ApiCall& call, const ApiRequest& prompt) const {
  const OpenModel& model = service_.model;
  EngineRequest accepted =
      make_engine_request(prompt, model.defaults, *model.engine, model.chat ? &*model.chat : nullptr);
  Request& request = accepted.request;
  const EngineInfo& info = model.engine->info();
  const std::size_t room = std::min(info.max_length, info.cache_tokens);
  if (!prompt.settings.contains("max_tokens")) {
    const auto all = static_cast<int>(room - std::min(room - 1, request.prompt.size()));
    request.max_tokens = default_max_tokens(info, request, all);
  }
  if (call.echo && request.sampling.logprobs >= 0 && request.prompt.size() > 1) {
    request.score_from = 1;
    request.score_top = request.sampling.logprobs;
  }
  request.report_progress = call.stream && call.return_progress;
  if (call.best_of != 0) request.sampling.logprobs = std::max(request.sampling.logprobs, 0);
  return accepted;
}

void Generation::expect_answer_of(const EngineRequest& accepted) {
  const Request& request = accepted.request;
  Completion& completion = answer_.completions.emplace_back();
  completion.settings = accepted.settings();
  completion.prompt_tokens = request.prompt.size();
  completion.syntax = accepted.syntax;
  completion.continuations.resize(static_cast<std::size_t>(request.n));
  paces_.emplace_back(static_cast<std::size_t>(request.n));
  answer_.prompts.push_back(request.prompt);
}

void Generation::submit(const std::vector<Request>& requests) {
  if (has_ended_) return;
  const std::size_t queued = service_.model.engine->status().queued_requests;
  if (const std::size_t most = service_.model.max_queue; most != 0 && queued + requests.size() > most)
    throw OverloadedError("the queue is full; try again later",
                          service_.model.engine->status().retry_after_seconds);
  for (std::size_t prompt = 0; prompt < requests.size(); ++prompt) {
    requests_.push_back(service_.model.engine->submit(
        requests[prompt], [self = shared_from_this(), prompt](const Event& event) {
          self->post([self, prompt, event, time = Clock::now()] { self->on_event(prompt, event, time); });
        }));
    service_.metrics.count_prompt(answer_.prompts[prompt].size());
  }
  exchange_->on_abandoned([self = shared_from_this()] {
    self->is_abandoned_ = true;
    self->cancel();
  });
  if (answer_.call.stream) ping_later();
}

void Generation::cancel() {
  post([self = shared_from_this()] {
    for (const RequestId request : self->requests_) self->service_.model.engine->cancel(request);
  });
}

void Generation::fail(const ApiError& error) {
  post([self = shared_from_this(), error] { self->end_with(error); });
}

void Generation::on_event(std::size_t prompt, const Event& event, Clock::time_point time) {
  if (has_ended_) return;
  Completion& completion = answer_.completions[prompt];
  if (const auto* token = std::get_if<TokenEvent>(&event)) return on_token(prompt, *token, time);
  if (const auto* logprobs = std::get_if<PromptLogprobs>(&event)) {
    completion.prompt_logprobs.insert(completion.prompt_logprobs.end(), logprobs->logprobs.begin(),
                                      logprobs->logprobs.end());
    completion.prompt_top.insert(completion.prompt_top.end(), logprobs->top.begin(), logprobs->top.end());
  } else if (const auto* finished = std::get_if<RequestFinished>(&event)) {
    on_prompt_end(finished->times);
  } else if (const auto* cancelled = std::get_if<RequestCancelled>(&event)) {
    on_prompt_end(cancelled->times);
  } else if (const auto* progress = std::get_if<PrefillProgress>(&event)) {
    if (!answer_.call.stream) return;
    begin_stream();
    send(format_->progress(answer_, progress->total, progress->cached, progress->processed));
  } else if (const auto* rejected = std::get_if<RequestRejected>(&event)) {
    end_with(api_error_of(OverloadedError(rejected->error)));
  }
}

void Generation::on_token(std::size_t prompt, const TokenEvent& event, Clock::time_point time) {
  const Continuation& continuation = answer_.completions[prompt].add(event);
  if (event.finish_reason == FinishReason::error) {
    return end_with({.status = 500, .type = error_type_of(500), .message = continuation.error});
  }
  if (event.finish_reason == FinishReason::cancelled) return;
  measure(prompt, event, time);
  if (!answer_.call.stream) return;
  begin_stream();
  send(format_->token(answer_, prompt, event));
}

void Generation::measure(std::size_t prompt, const TokenEvent& event, Clock::time_point time) {
  Pace& pace = paces_[prompt][static_cast<std::size_t>(event.sample)];
  const bool is_first = !std::exchange(pace.has_begun, true);
  const double seconds = seconds_between(is_first ? came_ : pace.last, time);
  if (is_first && first_token_ == 0.0) first_token_ = seconds;
  service_.metrics.count_token(is_first, seconds);
  pace.last = time;
}

void Generation::on_prompt_end(const RequestTimes& times) {
  const auto known = [](Clock::time_point time) { return time != Clock::time_point{}; };
  AnswerTimes& sum = answer_.times;
  if (known(times.first_scheduled))
    sum.queued = std::max(sum.queued, seconds_between(times.queued, times.first_scheduled));
  if (known(times.first_token)) {
    sum.prefill = std::max(sum.prefill, seconds_between(times.first_scheduled, times.first_token));
    sum.decode = std::max(sum.decode, seconds_between(times.first_token, times.finished));
  }
  if (--open_prompts_ == 0) finish();
}

// A stream begins with its first event: before that an error still has a status of its own.
void Generation::begin_stream() {
  if (std::exchange(is_streaming_, true)) return;
  HttpHeaders headers = service_.headers_for(exchange_->request());
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // nginx would collect the events
  exchange_->begin_stream(
      {.content_type = "text/event-stream; charset=utf-8", .headers = std::move(headers)});
  send(format_->begin(answer_));
}

void Generation::send(std::string events) {
  exchange_->write(std::move(events));
  last_sent_ = Clock::now();
}

// Proxies end connections on which nothing happens.
void Generation::ping_later() {
  service_.http->post_after(service_.options.ping_time, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->post([self] {
      if (self->has_ended_) return;
      if (Clock::now() - self->last_sent_ >= self->service_.options.ping_time / 2) {
        self->begin_stream();
        self->send(": ping\n\n");
      }
      self->ping_later();
    });
  });
}

void Generation::end_with(const ApiError& error) {
  if (has_ended_) return;
  for (const RequestId request : requests_) service_.model.engine->cancel(request);
  if (is_streaming_) {
    exchange_->write(format_->error_event(error));
    exchange_->end_stream();
  } else {
    HttpResponse response = service_.response_of(exchange_->request(), error);
    response.body = json_text(format_->error(error));
    exchange_->respond(std::move(response));
  }
  close(error.status, error.status < 500 ? "refused" : "error");
}

void Generation::finish() {
  if (has_ended_) return;
  if (is_abandoned_) return close(499, "abort");
  for (Completion& completion : answer_.completions) {
    for (Continuation& continuation : completion.continuations) {
      // No token was asked for, and none came.
      if (!continuation.finished()) continuation.finish_reason = FinishReason::length;
    }
  }
  const StepTimes steps = service_.steps();
  answer_.times.compute = steps.compute - steps_before_.compute;
  answer_.times.collectives = steps.collectives - steps_before_.collectives;
  answer_.times.waiting = steps.waiting - steps_before_.waiting;
  choose_best();
  if (answer_.call.stream) {
    begin_stream();
    send(format_->end(answer_));
    exchange_->end_stream();
  } else {
    service_.respond_json(*exchange_, 200, format_->body(answer_));
  }
  close(200, std::string(answer_.completions.front().continuations.front().finish_name()));
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

void Generation::close(int status, const std::string& reason) {
  has_ended_ = true;
  const HttpRequest& request = exchange_->request();
  const double total = seconds_between(came_, Clock::now());
  service_.log.add({.client = request.client,
                    .method = request.method,
                    .path = std::string(request.path()),
                    .status = status,
                    .id = answer_.id,
                    .prompt_tokens = answer_.prompt_tokens(),
                    .cached_tokens = answer_.cached_tokens(),
                    .generated_tokens = answer_.generated_tokens(),
                    .queued = answer_.times.queued,
                    .first_token = first_token_,
                    .total = total,
                    .reason = reason});
  if (status == 200 || status == 499 || status >= 500) {
    service_.metrics.count_end({.reason = status == 200   ? reason
                                          : status == 499 ? "abort"
                                                          : "error",
                                .prompt_tokens = answer_.prompt_tokens(),
                                .cached_tokens = answer_.cached_tokens(),
                                .generated_tokens = answer_.generated_tokens(),
                                .queued = answer_.times.queued,
                                .total = total});
  } else {
    service_.metrics.count_refusal(status);
  }
  service_.leave(this);
  exchange_.reset();  // which counts as an open request
}

}  // namespace tp
