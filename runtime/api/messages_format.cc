// Anthropic's Messages API.
#include "runtime/api/answer_format.h"

#include <string>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

const Continuation& text_of(const Answer& answer) { return answer.completions.front().continuations.front(); }

Json usage_of(const Answer& answer) {
  const std::size_t cached = answer.cached_tokens();
  return {{"input_tokens", answer.prompt_tokens() - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", answer.generated_tokens()}};
}

// Why it ended, and with which of its texts.
Json reason_of(const Answer& answer) {
  const Continuation& text = text_of(answer);
  Json reason = {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}};
  if (text.finish_reason == FinishReason::length) reason["stop_reason"] = "max_tokens";
  if (text.stop_reason.is_string())
    reason = {{"stop_reason", "stop_sequence"}, {"stop_sequence", Json(text.stop_reason)}};
  return reason;
}

Json message_of(const Answer& answer, Json content) {
  return {{"id", answer.id},          {"type", "message"},
          {"role", "assistant"},      {"content", std::move(content)},
          {"model", answer.model},    {"stop_reason", nullptr},
          {"stop_sequence", nullptr}, {"usage", usage_of(answer)}};
}

const char* type_of(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return error.status < 500 ? "invalid_request_error" : "api_error";
  }
}

class MessagesFormat final : public AnswerFormat {
 public:
  const char* id_prefix() const override { return "msg_"; }

  Json body(const Answer& answer) const override {
    Json message = message_of(answer, Json::array({{{"type", "text"}, {"text", text_of(answer).text}}}));
    message.update(reason_of(answer));
    return message;
  }

  std::string begin(const Answer&) override { return ""; }

  std::string token(const Answer& answer, std::size_t, const TokenEvent& event) override {
    std::string events;
    if (!has_begun_) {
      has_begun_ = true;
      events += sse_event("message_start",
                          {{"type", "message_start"}, {"message", message_of(answer, Json::array())}});
      events += sse_event("content_block_start", {{"type", "content_block_start"},
                                                  {"index", 0},
                                                  {"content_block", {{"type", "text"}, {"text", ""}}}});
    }
    if (event.text.empty()) return events;
    return events +
           sse_event("content_block_delta", {{"type", "content_block_delta"},
                                             {"index", 0},
                                             {"delta", {{"type", "text_delta"}, {"text", event.text}}}});
  }

  std::string progress(const Answer&, std::size_t, std::size_t, std::size_t) override { return ""; }

  std::string end(const Answer& answer) override {
    return sse_event("content_block_stop", {{"type", "content_block_stop"}, {"index", 0}}) +
           sse_event("message_delta",
                     {{"type", "message_delta"}, {"delta", reason_of(answer)}, {"usage", usage_of(answer)}}) +
           sse_event("message_stop", {{"type", "message_stop"}});
  }

  Json error(const ApiError& error) const override {
    return {{"type", "error"}, {"error", {{"type", type_of(error)}, {"message", error.message}}}};
  }
  std::string error_event(const ApiError& failure) const override {
    return sse_event("error", error(failure));
  }

 private:
  bool has_begun_ = false;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_messages_format() { return std::make_unique<MessagesFormat>(); }

}  // namespace tp
