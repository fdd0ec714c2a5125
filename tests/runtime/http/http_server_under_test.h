// An HTTP server with a handler for tests.
#pragma once

#include "runtime/http/http_server.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace tp::test {

// Responds with the request's body, which may have 10 bytes at /small. At /stream, the test writes a stream.
struct ServerUnderTest {
  explicit ServerUnderTest(const HttpLimits& limits = {})
      : server({.port = 0,
                .limits = limits,
                .route = [this](HttpRequest& head) { return route(head); },
                .refuse =
                    [](const HttpRequest&, int status, std::string_view message) {
                      return HttpResponse{
                          .status = status, .body = std::string(message), .content_type = "text/plain"};
                    }}) {}

  HttpDecision route(HttpRequest& head) {
    if (head.path() == "/small") head.max_body = 10;
    if (head.path() == "/forbidden")
      return HttpResponse{.status = 403, .body = "no", .content_type = "text/plain"};
    return [this](std::shared_ptr<HttpExchange> exchange) { handle(std::move(exchange)); };
  }

  void handle(std::shared_ptr<HttpExchange> exchange) {
    const HttpRequest& request = exchange->request();
    if (request.path() == "/drop") return;
    if (request.path() == "/stream") {
      exchange->on_abandoned([this] { ++abandoned; });
      exchange->begin_stream({.content_type = "text/event-stream"});
      return streams.set_value(std::move(exchange));
    }
    if (request.path() == "/wait") {
      exchange->on_abandoned([this] { ++abandoned; });
      return streams.set_value(std::move(exchange));
    }
    const std::string body = exchange->take_body();
    exchange->respond(
        {.body = request.method + " " + request.target + " " + body, .content_type = "text/plain"});
  }

  std::shared_ptr<HttpExchange> stream() { return streams.get_future().get(); }
  std::uint16_t port() const { return server.port(); }

  bool is_abandoned() const {
    for (int i = 0; i < 1000 && abandoned == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return abandoned == 1;
  }

  std::atomic<int> abandoned = 0;
  std::promise<std::shared_ptr<HttpExchange>> streams;
  HttpServer server;
};

}  // namespace tp::test
