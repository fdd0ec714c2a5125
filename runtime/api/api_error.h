// Errors as an HTTP API reports them.
#pragma once

#include "tp/error.h"

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tp {

struct ApiError {
  int status = 500;                   // of HTTP
  std::string type = "server_error";  // OpenAI's: invalid_request_error, rate_limit_error, ...
  std::string message{};
  std::string param{};                  // the member of the request that is wrong; may be empty
  std::string code{};                   // "context_length_exceeded"; may be empty
  std::optional<double> retry_after{};  // seconds after which the request may succeed
};

// What to tell the client of an exception: a wrong request is its own fault (400), too many requests are a
// matter of time (429), the rest is ours (500).
ApiError api_error_of(const std::exception& error);

// Pairs of names: that of a member of a chat, and that of the member of another API which became it.
using MemberNames = std::span<const std::pair<std::string_view, std::string_view>>;
// The error in terms of the API that the client uses.
ApiError renamed(ApiError error, MemberNames names);

// Why a request was refused, for a log: a few words of this server's own, never what a client wrote.
std::string short_reason(const ApiError& error);

// An error that knows how it is to be reported.
class ApiException : public RequestError {
 public:
  explicit ApiException(ApiError error) : RequestError(error.message), error_(std::move(error)) {}
  const ApiError& error() const { return error_; }

 private:
  ApiError error_;
};

// The types that OpenAI's clients expect with a status.
std::string error_type_of(int status);

}  // namespace tp
