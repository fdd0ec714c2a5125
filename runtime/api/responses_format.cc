// OpenAI's Responses API.
#include "runtime/api/answer_format.h"

#include <string>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

const Continuation& text_of(const Answer& answer) { return answer.completions.front().continuations.front(); }

bool is_incomplete(const Answer& answer) { return text_of(answer).finish_reason == FinishReason::length; }

std::string message_id(const Answer& answer) {
  return fmt::format("msg_{}", answer.id.substr(answer.id.find('_') + 1));
}

Json part_of(const std::string& text) {
  return {
      {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json item_of(const Answer& answer, const char* status, Json content) {
  return {{"type", "message"},
          {"id", message_id(answer)},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

// The response object, whose output is still empty while it is streamed.
Json response_of(const Answer& answer, const char* status, Json output) {
  const nlohmann::json& settings = answer.call.prompts.front().settings;
  const Json text = {{"format", {{"type", "text"}}}};
  Json response = {{"id", answer.id},
                   {"object", "response"},
                   {"created_at", answer.created},
                   {"status", status},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"instructions", nullptr},
                   {"max_output_tokens", settings.value("max_tokens", nlohmann::json())},
                   {"model", answer.model},
                   {"output", std::move(output)},
                   {"parallel_tool_calls", true},
                   {"previous_response_id", nullptr},
                   {"store", false},
                   {"temperature", settings.value("temperature", nlohmann::json())},
                   {"text", text},
                   {"tool_choice", "auto"},
                   {"tools", Json::array()},
                   {"top_p", settings.value("top_p", nlohmann::json())},
                   {"truncation", "disabled"},
                   {"usage", nullptr},
                   {"metadata", Json::object()}};
  return response;
}

Json finished_response(const Answer& answer) {
  const char* const status = is_incomplete(answer) ? "incomplete" : "completed";
  const Json content = Json::array({part_of(text_of(answer).text)});
  Json response = response_of(answer, status, Json::array({item_of(answer, status, content)}));
  if (is_incomplete(answer)) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = {{"input_tokens", answer.prompt_tokens()},
                       {"input_tokens_details", {{"cached_tokens", answer.cached_tokens()}}},
                       {"output_tokens", answer.generated_tokens()},
                       {"output_tokens_details", {{"reasoning_tokens", 0}}},
                       {"total_tokens", answer.prompt_tokens() + answer.generated_tokens()}};
  return response;
}

class ResponsesFormat final : public AnswerFormat {
 public:
  const char* id_prefix() const override { return "resp_"; }
  Json body(const Answer& answer) const override { return finished_response(answer); }

  std::string begin(const Answer& answer) override {
    const Json response = response_of(answer, "in_progress", Json::array());
    std::string events = event("response.created", {{"response", response}});
    return events += event("response.in_progress", {{"response", response}});
  }

  std::string token(const Answer& answer, std::size_t, const TokenEvent& token) override {
    std::string events;
    if (!has_begun_) {
      has_begun_ = true;
      events += event("response.output_item.added",
                      {{"output_index", 0}, {"item", item_of(answer, "in_progress", Json::array())}});
      events += about_part("response.content_part.added", answer, {{"part", part_of("")}});
    }
    if (token.text.empty()) return events;
    return events + about_part("response.output_text.delta", answer,
                               {{"delta", token.text}, {"logprobs", Json::array()}});
  }

  std::string progress(const Answer&, std::size_t, std::size_t, std::size_t) override { return ""; }

  std::string end(const Answer& answer) override {
    const std::string& text = text_of(answer).text;
    const Json response = finished_response(answer);
    std::string events =
        about_part("response.output_text.done", answer, {{"text", text}, {"logprobs", Json::array()}});
    events += about_part("response.content_part.done", answer, {{"part", part_of(text)}});
    events +=
        event("response.output_item.done", {{"output_index", 0}, {"item", response.at("output").front()}});
    return events += event(is_incomplete(answer) ? "response.incomplete" : "response.completed",
                           {{"response", response}});
  }

  Json error(const ApiError& error) const override { return openai_error(error); }
  std::string error_event(const ApiError& error) const override {
    return sse_event("error", {{"type", "error"},
                               {"code", error.code.empty() ? error.type : error.code},
                               {"message", error.message},
                               {"param", error.param.empty() ? Json() : Json(error.param)},
                               {"sequence_number", number_}});
  }

 private:
  // Events are numbered in the order in which they are made: make them in statements of their own.
  std::string event(const char* name, const Json& members) {
    Json data = {{"type", name}, {"sequence_number", number_++}};
    data.update(members);
    return sse_event(name, data);
  }

  std::string about_part(const char* name, const Answer& answer, const Json& members) {
    Json data = {{"item_id", message_id(answer)}, {"output_index", 0}, {"content_index", 0}};
    data.update(members);
    return event(name, data);
  }

  bool has_begun_ = false;
  int number_ = 0;  // of the next event
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_format() { return std::make_unique<ResponsesFormat>(); }

}  // namespace tp
