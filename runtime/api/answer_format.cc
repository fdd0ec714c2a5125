#include "runtime/api/answer_format.h"

#include <numeric>

#include <fmt/format.h>

namespace tp {

using Json = nlohmann::ordered_json;

std::size_t Answer::prompt_tokens() const {
  std::size_t tokens = 0;
  for (const Completion& completion : completions) tokens += completion.prompt_tokens;
  return tokens;
}

std::size_t Answer::cached_tokens() const {
  std::size_t tokens = 0;
  for (const Completion& completion : completions) tokens += completion.cached_tokens;
  return tokens;
}

std::size_t Answer::generated_tokens() const {
  std::size_t tokens = discarded_tokens;
  for (const Completion& completion : completions) {
    for (const Continuation& continuation : completion.continuations) tokens += continuation.token_ids.size();
  }
  return tokens;
}

namespace {

std::size_t sum_over_continuations(const Answer& answer, std::size_t Continuation::*count) {
  std::size_t sum = 0;
  for (const Completion& completion : answer.completions) {
    for (const Continuation& continuation : completion.continuations) sum += continuation.*count;
  }
  return sum;
}

}  // namespace

std::size_t Answer::reasoning_tokens() const {
  return sum_over_continuations(*this, &Continuation::reasoning_tokens);
}

std::size_t Answer::drafted_tokens() const {
  return sum_over_continuations(*this, &Continuation::drafted_tokens);
}

std::size_t Answer::accepted_tokens() const {
  return sum_over_continuations(*this, &Continuation::accepted_tokens);
}

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string sse_event(const Json& data) { return fmt::format("data: {}\n\n", json_text(data)); }

std::string sse_event(const char* name, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json_text(data));
}

Json openai_error(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

}  // namespace tp
