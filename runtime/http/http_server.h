// An HTTP/1.1 server with one thread. A slow client costs only the memory of its connection.
#pragma once

#include "runtime/http/http_call.h"
#include "runtime/http/http_exchange.h"
#include "runtime/http/http_message.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace tp {

struct HttpLimits {
  std::size_t body_bytes = std::size_t{32} << 20;
  std::size_t header_bytes = std::size_t{16} << 10;
  std::size_t all_body_bytes = std::size_t{256} << 20;  // bodies that no handler has taken yet
  std::size_t unread_bytes = std::size_t{1} << 20;      // part of a stream that the client has not read yet
  std::size_t connections = 4096;
  std::chrono::milliseconds header_time{10'000};  // limit for a request's headers
  std::chrono::milliseconds body_time{120'000};   // limit for a request's body
  std::chrono::milliseconds idle_time{75'000};    // limit between two requests of a connection
  std::chrono::milliseconds stall_time{60'000};   // limit for a client that reads nothing
};

// Answers a request. Must not block: it runs on the server's thread.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange> exchange)>;
// The decision about a request: its handler, or the response that refuses it.
using HttpDecision = std::variant<HttpHandler, HttpResponse>;

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port
  HttpLimits limits{};
  // Decides about a request before its body is read. May set the members `client`, `user` and `max_body` of
  // the head.
  std::function<HttpDecision(HttpRequest& head)> route{};
  // Makes the response to an invalid, too large or too slow request. `head` is empty if it is not known.
  std::function<HttpResponse(const HttpRequest& head, int status, std::string_view message)> refuse{};
};

class HttpServer {
 public:
  // Listens and starts to answer. Throws ConfigError if it cannot listen at the address.
  explicit HttpServer(HttpOptions options);
  // Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  // Number of open connections.
  std::size_t connections() const;
  // Number of unanswered requests that were not refused, including requests whose body is being read.
  std::size_t open_requests() const;

  // From any thread: run `call` on the server's thread, in order.
  void post(std::function<void()> call);
  void post_after(std::chrono::milliseconds delay, std::function<void()> call);
  // Calls `call` on the server's thread whenever the descriptor is readable, until `call` returns false. The
  // caller still owns the descriptor.
  void when_readable(int descriptor, std::function<bool()> call);

  // Sends a request to another server. The events arrive on the server's thread. Call it on this thread, or
  // don't cancel the call.
  std::shared_ptr<HttpCall> call(HttpCallRequest request, HttpCallEvents events);

  // Waits until all connections have written their pending data, at most this long.
  void flush(std::chrono::milliseconds longest);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tp
