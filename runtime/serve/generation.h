// One call of the API that generates text: its prompts and their results so far.
#pragma once

#include "runtime/api/answer_format.h"
#include "runtime/api/record.h"
#include "runtime/serve/call.h"
#include "runtime/serve/replay.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class Generation : public Call {
 public:
  // Submits the call's prompts; their events drive all later work. With a record, the answer is a marked
  // stream (runtime/gateway/README.md), and continues the record. Throws RequestError if the call cannot be
  // served.
  static void start(Service& service, std::shared_ptr<HttpExchange> exchange,
                    std::unique_ptr<AnswerFormat> format, ApiCall call, std::optional<Record> record);

  Generation(Service& service, std::shared_ptr<HttpExchange> exchange, std::unique_ptr<AnswerFormat> format,
             std::optional<Record> record);

 private:
  // Timing of one continuation's tokens.
  struct Pace {
    bool has_begun = false;
    Clock::time_point last{};
  };

  std::vector<Request> make_requests(ApiCall call);
  void fix_identity(ApiCall& call, const char* prefix);
  bool can_start_in_the_middle(const Request& request) const;
  Completion begin(const ApiCall& call, const ApiRequest& prompt) const;
  void on_submitted() override;
  void on_event(std::size_t prompt, const Event& event, Clock::time_point time) override;
  void on_token(std::size_t prompt, TokenEvent event, Clock::time_point time);
  void add(const RequestTimes& times);
  void measure(std::size_t prompt, const TokenEvent& event, Clock::time_point time);
  void begin_stream();
  void send(std::string events, std::string_view mark = "begun");
  void end_marked(std::string body, int status);
  void ping_later();
  void finish() override;
  void choose_best();
  ApiError error_of(const std::exception& error) const override;
  void send_error(const ApiError& error) override;
  LoggedRequest usage() const override;

  std::unique_ptr<AnswerFormat> format_;
  std::optional<Record> record_;  // set if the gateway sent the call; `tokens` moves to replay_
  std::optional<Replay> replay_;
  Answer answer_;
  std::vector<std::vector<Pace>> paces_;  // [prompts][samples]
  StepSeconds steps_before_;              // at submission
  bool is_streaming_ = false;
  Clock::time_point last_sent_ = Clock::now();
  double first_token_ = 0.0;  // seconds
};

}  // namespace tp
