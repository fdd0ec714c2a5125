#include "runtime/api/answer_format.h"

#include "model/files/json_text.h"

#include <fmt/format.h>

namespace tp {

using Json = nlohmann::ordered_json;

std::size_t Answer::prompt_tokens() const {
  return sum_of(completions, [](const Completion& completion) { return completion.request.prompt.size(); });
}

std::size_t Answer::cached_tokens() const { return sum_of(completions, &Completion::cached_tokens); }

std::size_t Answer::generated_tokens() const {
  return discarded_tokens + sum_of(completions, &Completion::generated_tokens);
}

std::size_t Answer::sum(std::size_t Continuation::*number) const {
  return sum_of(completions, [&](const Completion& completion) { return completion.sum(number); });
}

std::string sse_event(const Json& data) { return fmt::format("data: {}\n\n", json_text(data)); }

std::string sse_event(const char* name, const Json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json_text(data));
}

Json openai_error(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json members = {{"message", error.message},
                  {"type", error.type()},
                  {"param", or_null(error.param)},
                  {"code", or_null(error.code)}};
  // llama.cpp's names
  if (error.excess)
    members.update({{"n_prompt_tokens", error.excess->tokens}, {"n_ctx", error.excess->maximum}});
  return {{"error", std::move(members)}};
}

bool expects_anthropic_errors(std::string_view path, std::string_view version) {
  constexpr std::string_view kPrefix = "/v1";
  if (path.starts_with(kPrefix)) path.remove_prefix(kPrefix.size());
  return path == "/messages" || path.starts_with("/messages/") || !version.empty();
}

Json error_body(bool is_anthropic, const ApiError& error) {
  return is_anthropic ? make_messages_format()->error(error) : openai_error(error);
}

}  // namespace tp
