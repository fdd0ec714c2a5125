// OpenAI's Responses API.
#include "runtime/api/answer_format.h"
#include "runtime/api/message_blocks.h"
#include "runtime/api/rounded.h"

#include <string>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Kind = MessagePiece::Kind;

bool is_incomplete(const Answer& answer) {
  return answer.continuation().finish_reason == FinishReason::length;
}

std::string item_id(const Answer& answer, const MessageBlock& block) {
  const char* const prefix = block.kind == Kind::reasoning ? "rs" : block.kind == Kind::call ? "fc" : "msg";
  return fmt::format("{}_{}_{}", prefix, answer.id.substr(answer.id.find('_') + 1), block.index);
}

Json content_part(const MessageBlock& block, const std::string& text) {
  if (block.kind == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {
      {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

// An item of the output, without content if it only begins.
Json item_of(const Answer& answer, const MessageBlock& block, const char* status, bool is_empty) {
  Json item = {{"id", item_id(answer, block)}, {"type", "message"}, {"status", status}};
  if (block.kind == Kind::call) {
    item.update({{"type", "function_call"},
                 {"call_id", block.id},
                 {"name", block.name},
                 {"arguments", is_empty ? "" : block.text}});
    const auto& namespaces = answer.call.namespaces;
    if (const auto found = namespaces.find(block.name); found != namespaces.end())
      item.update({{"name", found->second.name}, {"namespace", found->second.space}});
    return item;
  }
  if (block.kind == Kind::reasoning)
    item.update({{"type", "reasoning"}, {"summary", Json::array()}});
  else
    item["role"] = "assistant";
  item["content"] = is_empty ? Json::array() : Json::array({content_part(block, block.text)});
  return item;
}

const char* status_of(const Answer& answer) { return is_incomplete(answer) ? "incomplete" : "completed"; }

// The item in which the answer was cut off is incomplete.
const char* status_of(const Answer& answer, const MessageBlock& block) {
  const bool is_complete = block.is_closed || (block.kind != Kind::call && !is_incomplete(answer));
  return is_complete ? "completed" : "incomplete";
}

// The response object. While it is streamed, its output is empty.
Json response_of(const Answer& answer, const char* status, Json output) {
  const Request& request = answer.completions.front().request;
  Json response = {{"id", answer.id},
                   {"object", "response"},
                   {"created_at", answer.created},
                   {"status", status},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"max_output_tokens", request.max_tokens},
                   {"model", answer.model},
                   {"output", std::move(output)},
                   {"previous_response_id", nullptr},
                   {"store", false},
                   {"temperature", rounded(request.sampling.temperature)},
                   {"top_p", rounded(request.sampling.top_p)},
                   {"truncation", "disabled"},
                   {"usage", nullptr}};
  response.update(answer.call.repeated);
  if (!answer.call.warnings.empty()) response["warnings"] = answer.call.warnings;
  return response;
}

Json finished_response(const Answer& answer, Json output) {
  Json response = response_of(answer, status_of(answer), std::move(output));
  if (is_incomplete(answer)) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = {
      {"input_tokens", answer.prompt_tokens()},
      {"input_tokens_details", {{"cached_tokens", answer.cached_tokens()}}},
      {"output_tokens", answer.generated_tokens()},
      {"output_tokens_details", {{"reasoning_tokens", answer.sum(&Continuation::reasoning_tokens)}}},
      {"total_tokens", answer.prompt_tokens() + answer.generated_tokens()}};
  return response;
}

class ResponsesFormat final : public AnswerFormat, BlockStream {
 public:
  const char* id_prefix() const override { return "resp_"; }

  Json body(const Answer& answer) const override {
    Json output = Json::array();
    for (const MessageBlock& block : blocks_of(answer.continuation().message))
      output.push_back(item_of(answer, block, status_of(answer, block), false));
    return finished_response(answer, std::move(output));
  }

  std::string begin(const Answer& answer) override {
    const Json response = response_of(answer, "in_progress", Json::array());
    event("response.created", {{"response", response}});
    event("response.in_progress", {{"response", response}});
    return std::exchange(events_, {});
  }

  std::string token(const Answer& answer, std::size_t, const TokenEvent&) override {
    answer_ = &answer;
    add(answer.continuation().news);
    return std::exchange(events_, {});
  }

  std::string progress(const Answer&, std::size_t, std::size_t, std::size_t) override { return ""; }

  std::string end(const Answer& answer) override {
    answer_ = &answer;
    finish();
    event(is_incomplete(answer) ? "response.incomplete" : "response.completed",
          {{"response", finished_response(answer, output_)}});
    return std::exchange(events_, {});
  }

  Json error(const ApiError& error) const override { return openai_error(error); }
  std::string error_event(const ApiError& error) const override {
    return sse_event("error", {{"type", "error"},
                               {"code", error.code.empty() ? error.type() : error.code},
                               {"message", error.message},
                               {"param", error.param.empty() ? Json() : Json(error.param)},
                               {"sequence_number", number_}});
  }

 private:
  void begin_block(const MessageBlock& block) override {
    event("response.output_item.added",
          {{"output_index", block.index}, {"item", item_of(*answer_, block, "in_progress", true)}});
    if (block.kind != Kind::call)
      about("response.content_part.added", block, {{"part", content_part(block, "")}});
  }

  void extend_block(const MessageBlock& block, const std::string& text) override {
    Json delta = {{"delta", text}};
    if (block.kind == Kind::text) delta["logprobs"] = Json::array();
    about(name_of(block, "delta"), block, delta);
  }

  void end_block(const MessageBlock& block) override {
    Json whole = {{block.kind == Kind::call ? "arguments" : "text", block.text}};
    if (block.kind == Kind::text) whole["logprobs"] = Json::array();
    about(name_of(block, "done"), block, whole);
    if (block.kind != Kind::call)
      about("response.content_part.done", block, {{"part", content_part(block, block.text)}});
    const Json& item = output_.emplace_back(item_of(*answer_, block, status_of(*answer_, block), false));
    event("response.output_item.done", {{"output_index", block.index}, {"item", item}});
  }

  static std::string name_of(const MessageBlock& block, const char* what) {
    const char* const kind = block.kind == Kind::reasoning ? "reasoning_text"
                             : block.kind == Kind::call    ? "function_call_arguments"
                                                           : "output_text";
    return fmt::format("response.{}.{}", kind, what);
  }

  // Adds an event with the next sequence number.
  void event(const std::string& name, const Json& members) {
    Json data = {{"type", name}, {"sequence_number", number_++}};
    data.update(members);
    events_ += sse_event(name.c_str(), data);
  }

  void about(const std::string& name, const MessageBlock& block, const Json& members) {
    Json data = {{"item_id", item_id(*answer_, block)}, {"output_index", block.index}};
    if (block.kind != Kind::call) data["content_index"] = 0;
    data.update(members);
    event(name, data);
  }

  const Answer* answer_ = nullptr;  // current answer, the source of events
  std::string events_;              // events to send
  Json output_ = Json::array();     // complete items
  int number_ = 0;                  // number of the next event
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_format() { return std::make_unique<ResponsesFormat>(); }

}  // namespace tp
