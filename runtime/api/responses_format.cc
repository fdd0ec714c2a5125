// OpenAI's Responses API.
#include "runtime/api/answer_format.h"
#include "runtime/api/message_blocks.h"
#include "runtime/api/openai_response.h"
#include "runtime/api/responses_items.h"
#include "runtime/api/rounded.h"
#include "tp/engine.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Kind = MessagePiece::Kind;

bool is_incomplete(const Answer& answer) {
  return answer.continuation().finish_reason == FinishReason::length;
}

std::string item_id(const Answer& answer, const MessageBlock& block) {
  const char* const prefix = block.kind == Kind::reasoning ? "rs"
                             : block.kind == Kind::text    ? "msg"
                             : block.takes_text            ? "ctc"
                                                           : "fc";
  return fmt::format("{}_{}_{}", prefix, answer.id.substr(answer.id.find('_') + 1), block.index);
}

// The member that contains a block's text.
const char* text_member(const MessageBlock& block) {
  return block.kind != Kind::call ? "text" : block.takes_text ? "input" : "arguments";
}

// `logprobs`: those of the text's tokens.
Json content_part(const MessageBlock& block, const std::string& text, Json logprobs) {
  if (block.kind == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", std::move(logprobs)}};
}

// An item of the output. `content`: its part of content, or nothing if it only begins.
Json item_of(const Answer& answer, const MessageBlock& block, const char* status, Json content) {
  const bool is_empty = content.is_null();
  Json item = {{"id", item_id(answer, block)}, {"type", "message"}, {"status", status}};
  if (block.kind == Kind::call) {
    item.update({{"type", block.takes_text ? "custom_tool_call" : "function_call"},
                 {"call_id", block.id},
                 {"name", block.name},
                 {text_member(block), is_empty ? "" : block.text}});
    const auto& namespaces = answer.call.namespaces;
    if (const auto found = namespaces.find(block.name); found != namespaces.end())
      item.update({{"name", found->second.name}, {"namespace", found->second.space}});
    return item;
  }
  if (block.kind == Kind::reasoning) {
    item.update({{"type", "reasoning"}, {"summary", Json::array()}});
    if (!is_empty) item["encrypted_content"] = sealed_thoughts(block.text);
  } else {
    item["role"] = "assistant";
  }
  item["content"] = is_empty ? Json::array() : Json::array({std::move(content)});
  return item;
}

const char* status_of(const Answer& answer) { return is_incomplete(answer) ? "incomplete" : "completed"; }

// The item in which the answer was cut off is incomplete.
const char* status_of(const Answer& answer, const MessageBlock& block) {
  const bool is_complete = block.is_closed || (block.kind != Kind::call && !is_incomplete(answer));
  return is_complete ? "completed" : "incomplete";
}

// The response object, with all members that Open Responses requires. While it is streamed, its output is
// empty.
Json response_of(const Answer& answer, const char* status, Json output) {
  const Request& request = answer.completions.front().request;
  Json response = {{"id", answer.id},
                   {"object", "response"},
                   {"created_at", answer.created},
                   {"completed_at", nullptr},
                   {"status", status},
                   {"background", false},
                   {"error", nullptr},
                   {"frequency_penalty", rounded(request.sampling.frequency_penalty)},
                   {"incomplete_details", nullptr},
                   {"max_output_tokens", request.max_tokens},
                   {"model", answer.model},
                   {"output", std::move(output)},
                   {"presence_penalty", rounded(request.sampling.presence_penalty)},
                   {"previous_response_id", nullptr},
                   {"service_tier", "default"},
                   {"store", false},
                   {"temperature", rounded(request.sampling.temperature)},
                   {"top_logprobs", std::max(request.sampling.logprobs, 0)},
                   {"top_p", rounded(request.sampling.top_p)},
                   {"truncation", "disabled"},
                   {"usage", nullptr}};
  response.update(Json::parse(answer.call.repeated));
  if (!answer.call.warnings.empty()) response["warnings"] = answer.call.warnings;
  return response;
}

Json finished_response(const Answer& answer, Json output) {
  Json response = response_of(answer, status_of(answer), std::move(output));
  if (is_incomplete(answer))
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  else
    response["completed_at"] = static_cast<std::int64_t>(std::time(nullptr));
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
  explicit ResponsesFormat(const Engine* engine) : engine_(engine) {}

  const char* id_prefix() const override { return "resp_"; }

  Json body(const Answer& answer) const override {
    Json output = Json::array();
    for (const MessageBlock& block : blocks_of(answer.continuation().message))
      output.push_back(whole_item(answer, block));
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
    sent_logprobs_ = 0;
    event("response.output_item.added",
          {{"output_index", block.index}, {"item", item_of(*answer_, block, "in_progress", nullptr)}});
    if (block.kind != Kind::call)
      about("response.content_part.added", block, {{"part", content_part(block, "", Json::array())}});
  }

  void extend_block(const MessageBlock& block, const std::string& text) override {
    Json delta = {{"delta", text}};
    if (block.kind == Kind::text) {
      delta["logprobs"] = logprobs_of(*answer_, block, sent_logprobs_);
      sent_logprobs_ += delta["logprobs"].size();
    }
    about(name_of(block, "delta"), block, delta);
  }

  void end_block(const MessageBlock& block) override {
    Json whole = {{text_member(block), block.text}};
    if (block.kind == Kind::text) whole["logprobs"] = logprobs_of(*answer_, block, 0);
    about(name_of(block, "done"), block, whole);
    if (block.kind != Kind::call)
      about("response.content_part.done", block, {{"part", whole_part(*answer_, block)}});
    const Json& item = output_.emplace_back(whole_item(*answer_, block));
    event("response.output_item.done", {{"output_index", block.index}, {"item", item}});
  }

  // The log-probabilities of a block's tokens, from the token with this number on.
  Json logprobs_of(const Answer& answer, const MessageBlock& block, std::size_t first) const {
    Json list = Json::array();
    const Continuation& text = answer.continuation();
    if (engine_ == nullptr || block.index >= text.tokens_of_blocks.size()) return list;
    const std::vector<std::size_t>& tokens = text.tokens_of_blocks[block.index];
    for (std::size_t i = first; i < tokens.size(); ++i)
      list.push_back(scored_token(*engine_, text.logprobs[tokens[i]]));
    return list;
  }

  Json whole_part(const Answer& answer, const MessageBlock& block) const {
    return content_part(block, block.text, logprobs_of(answer, block, 0));
  }
  Json whole_item(const Answer& answer, const MessageBlock& block) const {
    return item_of(answer, block, status_of(answer, block), whole_part(answer, block));
  }

  static std::string name_of(const MessageBlock& block, const char* what) {
    const char* const kind = block.kind == Kind::reasoning ? "reasoning_text"
                             : block.kind == Kind::text    ? "output_text"
                             : block.takes_text            ? "custom_tool_call_input"
                                                           : "function_call_arguments";
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

  const Engine* engine_;
  const Answer* answer_ = nullptr;  // current answer, the source of events
  std::string events_;              // events to send
  Json output_ = Json::array();     // complete items
  int number_ = 0;                  // number of the next event
  std::size_t sent_logprobs_ = 0;   // number of the block's tokens that were sent
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_format(const Engine* engine) {
  return std::make_unique<ResponsesFormat>(engine);
}

}  // namespace tp
