// Errors in the form in which an HTTP API reports them.
#pragma once

#include "tp/error.h"

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tp {

// Tokens of a prompt that is too long, and the maximum.
struct PromptExcess {
  std::size_t tokens = 0;
  std::size_t maximum = 0;
};

struct ApiError {
  int status = 500;  // HTTP status
  std::string message{};
  std::string param{};                  // the invalid member of the request; may be empty
  std::string code{};                   // "context_length_exceeded"; may be empty
  std::optional<double> retry_after{};  // seconds after which the request may succeed
  bool job_ends = false;                // another job may serve the request
  std::optional<PromptExcess> excess{};

  // OpenAI's type for the status: invalid_request_error, rate_limit_error, ...
  std::string type() const;
};

// Converts an exception to an error for the client: 400 for an invalid request, 429 for an overload, which
// passes, and 500 for the server's own failures.
ApiError api_error_of(const std::exception& error);

// Pairs of names: a member of a chat, and the member of another API that was converted to it.
using MemberNames = std::span<const std::pair<std::string_view, std::string_view>>;
// The error, with the member names of the client's API.
ApiError renamed(ApiError error, MemberNames names);

// The reason of a refusal, for a log: a few words of this server, never the client's text.
std::string short_reason(const ApiError& error);

// An exception that contains the error to report.
class ApiException : public RequestError {
 public:
  explicit ApiException(ApiError error) : RequestError(error.message), error_(std::move(error)) {}
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

}  // namespace tp
