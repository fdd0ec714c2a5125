// Dispatches requests to endpoints.
#pragma once

#include "runtime/http/http_message.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/service.h"

#include <memory>
#include <optional>

namespace tp {

class Router {
 public:
  explicit Router(Service& service) : service_(service) {}

  // Returns the response that refuses a request before its body is read, or nullopt.
  std::optional<HttpResponse> refusal(const HttpRequest& head) const;
  // Answers a request that was not refused, on the pool's threads.
  void handle(std::shared_ptr<HttpExchange> exchange) const;

 private:
  void run(const std::shared_ptr<HttpExchange>& exchange) const;
  std::optional<ApiError> find_fault(const HttpRequest& head) const;
  HttpResponse answer_options(const HttpRequest& head) const;
  HttpResponse error_response(const HttpRequest& head, const ApiError& error) const;

  Service& service_;
};

}  // namespace tp
