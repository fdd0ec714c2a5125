// Anthropic's Messages API.
#include "runtime/api/answer_format.h"
#include "runtime/api/message_blocks.h"
#include "runtime/api/state_elsewhere.h"
#include "runtime/chat/bounded_json.h"

#include <string>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Kind = MessagePiece::Kind;

Json usage_of(const Answer& answer) {
  const std::size_t cached = answer.cached_tokens();
  return {{"input_tokens", answer.prompt_tokens() - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", answer.generated_tokens()}};
}

// Why the text ended, and the stop text that ended it.
Json reason_of(const Answer& answer) {
  const Continuation& text = answer.continuation();
  Json reason = {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}};
  if (text.finish_reason == FinishReason::length) reason["stop_reason"] = "max_tokens";
  if (text.finish_name() == "tool_calls")
    reason["stop_reason"] = "tool_use";
  else if (text.stop_reason.is_string())
    reason = {{"stop_reason", "stop_sequence"}, {"stop_sequence", Json(text.stop_reason)}};
  return reason;
}

Json message_of(const Answer& answer, Json content) {
  Json message = {{"id", answer.id},          {"type", "message"},
                  {"role", "assistant"},      {"content", std::move(content)},
                  {"model", answer.model},    {"stop_reason", nullptr},
                  {"stop_sequence", nullptr}, {"usage", usage_of(answer)}};
  if (!answer.call.warnings.empty()) message["warnings"] = answer.call.warnings;
  return message;
}

// The arguments of a call. Anthropic's guide defines how to send arguments that are not a JSON object.
// Arguments that exceed the limits of JSON are sent in the same way.
Json input_of(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  std::optional<Json> input = BoundedJson().parse(arguments);
  return input && input->is_object() ? *std::move(input) : Json{{"INVALID_JSON", arguments}};
}

// `text` is empty at the beginning of a block.
Json block_of(const MessageBlock& block, const std::string& text) {
  if (block.kind == Kind::reasoning) return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
  if (block.kind == Kind::text) return {{"type", "text"}, {"text", text}};
  return {{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", input_of(text)}};
}

Json delta_of(const MessageBlock& block, const std::string& text) {
  if (block.kind == Kind::reasoning) return {{"type", "thinking_delta"}, {"thinking", text}};
  if (block.kind == Kind::text) return {{"type", "text_delta"}, {"text", text}};
  return {{"type", "input_json_delta"}, {"partial_json", text}};
}

const char* anthropic_type_of(const ApiError& error) {
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

// Anthropic's words, in which agents recognize a conversation that they must shorten.
std::string message_of(const ApiError& error) {
  if (!error.excess) return error.message;
  return fmt::format("prompt is too long: {} tokens > {} maximum; {}", error.excess->tokens,
                     error.excess->maximum, error.message);
}

// Details that Anthropic's clients read: the reason, and the members that the server cannot honour.
Json details_of(const ApiError& error) {
  Json details = {{"error_code", error.code}};
  if (error.code == kUnsupportedThread) details["unsupported"] = Json::array({error.param});
  return details;
}

class MessagesFormat final : public AnswerFormat, BlockStream {
 public:
  const char* id_prefix() const override { return "msg_"; }

  Json body(const Answer& answer) const override {
    Json content = Json::array();
    for (const MessageBlock& block : blocks_of(answer.continuation().message))
      content.push_back(block_of(block, block.text));
    Json message = message_of(answer, std::move(content));
    message.update(reason_of(answer));
    return message;
  }

  std::string begin(const Answer&) override { return ""; }

  std::string token(const Answer& answer, std::size_t, const TokenEvent&) override {
    start(answer);
    add(answer.continuation().news);
    return std::exchange(events_, {});
  }

  std::string progress(const Answer&, std::size_t, std::size_t, std::size_t) override { return ""; }

  std::string end(const Answer& answer) override {
    start(answer);
    finish();
    return std::exchange(events_, {}) +
           sse_event("message_delta",
                     {{"type", "message_delta"}, {"delta", reason_of(answer)}, {"usage", usage_of(answer)}}) +
           sse_event("message_stop", {{"type", "message_stop"}});
  }

  Json error(const ApiError& error) const override {
    Json body = {{"type", "error"},
                 {"error", {{"type", anthropic_type_of(error)}, {"message", message_of(error)}}}};
    if (!error.code.empty()) body["error"]["details"] = details_of(error);
    return body;
  }
  std::string error_event(const ApiError& failure) const override {
    return sse_event("error", error(failure));
  }

 private:
  void begin_block(const MessageBlock& block) override {
    events_ += sse_event(
        "content_block_start",
        {{"type", "content_block_start"}, {"index", block.index}, {"content_block", block_of(block, "")}});
  }
  void extend_block(const MessageBlock& block, const std::string& text) override {
    add_delta(block, delta_of(block, text));
  }
  void end_block(const MessageBlock& block) override {
    // Clients keep thinking only after its signature. This server does not check signatures.
    if (block.kind == Kind::reasoning) add_delta(block, {{"type", "signature_delta"}, {"signature", ""}});
    events_ += sse_event("content_block_stop", {{"type", "content_block_stop"}, {"index", block.index}});
  }

  // Sent with the first token, because only then the number of cached prompt tokens is known.
  void start(const Answer& answer) {
    if (std::exchange(has_begun_, true)) return;
    events_ += sse_event("message_start",
                         {{"type", "message_start"}, {"message", message_of(answer, Json::array())}});
  }
  void add_delta(const MessageBlock& block, const Json& delta) {
    events_ += sse_event("content_block_delta",
                         {{"type", "content_block_delta"}, {"index", block.index}, {"delta", delta}});
  }

  bool has_begun_ = false;
  std::string events_;  // events to send
};

}  // namespace

std::unique_ptr<AnswerFormat> make_messages_format() { return std::make_unique<MessagesFormat>(); }

}  // namespace tp
