// One call of the API that generates text: its prompts, and what has come of them.
#pragma once

#include "runtime/api/answer_format.h"
#include "runtime/api/engine_request.h"
#include "runtime/http/http_exchange.h"
#include "runtime/serve/service.h"
#include "runtime/serve/worker_pool.h"
#include "tp/event.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace tp {

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits the call's prompts; everything else follows from their events. Throws RequestError if it cannot
  // be served.
  static void start(Service& service, std::shared_ptr<HttpExchange> exchange,
                    std::unique_ptr<AnswerFormat> format, ApiCall call);

  Generation(Service& service, std::shared_ptr<HttpExchange> exchange, std::unique_ptr<AnswerFormat> format);

  // From any thread: ends it with an error.
  void fail(const ApiError& error);

 private:
  using Clock = std::chrono::steady_clock;

  // What is known of one continuation's tokens.
  struct Pace {
    bool has_begun = false;
    Clock::time_point last{};
  };

  void check(const ApiCall& call) const;
  // With errors in terms of the call's API.
  std::vector<Request> requests_of(ApiCall call);
  std::vector<Request> make_requests(ApiCall call);
  EngineRequest make_request(const ApiCall& call, const ApiRequest& prompt) const;
  void expect_answer_of(const EngineRequest& accepted);
  // Runs on the queue; an exception ends the call with an error.
  void post(std::function<void()> task);
  void submit(const std::vector<Request>& requests);
  void cancel();
  void on_event(std::size_t prompt, const Event& event, Clock::time_point time);
  void on_token(std::size_t prompt, const TokenEvent& event, Clock::time_point time);
  void on_prompt_end(const RequestTimes& times);
  void measure(std::size_t prompt, const TokenEvent& event, Clock::time_point time);
  void begin_stream();
  void send(std::string events);
  void ping_later();
  void end_with(const ApiError& error);
  void finish();
  void choose_best();
  void close(int status, const std::string& reason, const std::string& param = "");

  Service& service_;
  std::shared_ptr<HttpExchange> exchange_;
  std::unique_ptr<AnswerFormat> format_;
  TaskQueue queue_;
  const Clock::time_point came_ = Clock::now();
  std::vector<RequestId> requests_;         // set before the first event is handled
  std::atomic<bool> is_abandoned_ = false;  // the client has left

  // The members below belong to the queue's tasks.
  Answer answer_;
  std::vector<std::vector<Pace>> paces_;  // by prompt and sample
  std::size_t open_prompts_ = 0;
  StepTimes steps_before_;  // when it was submitted
  bool is_streaming_ = false;
  bool has_ended_ = false;
  Clock::time_point last_sent_ = Clock::now();
  double first_token_ = 0.0;  // seconds
};

}  // namespace tp
