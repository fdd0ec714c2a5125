#include "runtime/api/api_error.h"

#include "model/chat/jinja/template.h"
#include "model/files/json_fault.h"
#include "tp/internal/prompt_too_long.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

namespace tp {
namespace {

// The first name in backquotes: a message about a member names the member first.
std::string named_in(const std::string& message) {
  const std::size_t begin = message.find('`');
  const std::size_t end = begin == std::string::npos ? begin : message.find('`', begin + 1);
  return end == std::string::npos ? "" : message.substr(begin + 1, end - begin - 1);
}

// Messages quote the rejected value, which may be megabytes long.
std::string shortened(std::string message) {
  constexpr std::size_t kBegin = 700;
  constexpr std::size_t kEnd = 200;
  if (message.size() > kBegin + kEnd) message.replace(kBegin, message.size() - kBegin - kEnd, " ... ");
  return message;
}

// Clients must not see the template's file and position.
ApiError refused_by_template(const jinja::RenderError& error) {
  return {.status = 400,
          .message = shortened(
              fmt::format("`messages`: the model's chat template cannot render them: {}; change the messages",
                          error.reason())),
          .param = "messages",
          .code = "chat_template_error"};
}

}  // namespace

std::string ApiError::type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

ApiError api_error_of(const std::exception& error) {
  ApiError result{.message = shortened(error.what())};
  if (const auto* api = dynamic_cast<const ApiException*>(&error)) {
    result = api->error();
    result.message = shortened(result.message);
    return result;
  }
  if (const auto* template_error = dynamic_cast<const jinja::RenderError*>(&error)) {
    result = refused_by_template(*template_error);
  } else if (dynamic_cast<const TooLongError*>(&error) != nullptr) {
    result.status = 400;
    result.code = "context_length_exceeded";
    if (const auto* prompt = dynamic_cast<const PromptTooLongError*>(&error))
      result.excess = {.tokens = prompt->tokens(), .maximum = prompt->maximum()};
  } else if (const auto* overloaded = dynamic_cast<const OverloadedError*>(&error)) {
    result.status = 429;
    result.code = "overloaded";
    result.retry_after = overloaded->retry_after_seconds();
  } else if (dynamic_cast<const RequestError*>(&error) != nullptr) {
    result.status = 400;
    result.param = named_in(result.message);
  } else if (dynamic_cast<const CheckpointError*>(&error) != nullptr) {
    result.status = 400;  // the model has no tokenizer or chat template
  } else if (const auto* json = dynamic_cast<const nlohmann::json::exception*>(&error)) {
    result.message = fmt::format("the server failed at a value of this request: {}", json_fault(*json));
  } else if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    result.status = 429;
    result.message = "there is no memory for this request at the moment; try again later, or shorten it";
    result.retry_after = 1.0;
  }
  return result;
}

ApiError renamed(ApiError error, MemberNames names) {
  for (const auto& [name, original] : names) {
    if (error.param == name) error.param = original;
    const std::string quoted = fmt::format("`{}`", name);
    if (const std::size_t at = error.message.find(quoted); at != std::string::npos)
      error.message.replace(at, quoted.size(), fmt::format("`{}`", original));
  }
  return error;
}

namespace {

// The position of the first `word` outside quotation marks and backquotes, which enclose clients' texts.
std::size_t find_outside_quotes(std::string_view text, std::string_view word) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\')
      ++i;
    else if (quote != 0)
      quote = text[i] == quote ? '\0' : quote;
    else if (text[i] == '"' || text[i] == '`')
      quote = text[i];
    else if (text.substr(i).starts_with(word))
      return i;
  }
  return std::string_view::npos;
}

}  // namespace

// Messages say what was expected before they quote the client's value.
std::string short_reason(const ApiError& error) {
  constexpr std::size_t kMax = 120;
  if (!error.code.empty()) return error.code;
  const std::size_t begin = find_outside_quotes(error.message, "expected ");
  if (begin == std::string::npos) return error.type();
  std::string reason = error.message.substr(begin, kMax);
  return reason.substr(0, std::min(reason.find(", found"), reason.find_first_of(";(\n")));
}

}  // namespace tp
