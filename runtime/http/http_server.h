// An HTTP/1.1 server with one thread, on which a slow client costs nothing but its memory.
#pragma once

#include "runtime/http/http_exchange.h"
#include "runtime/http/http_message.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

struct HttpLimits {
  std::size_t body_bytes = std::size_t{32} << 20;
  std::size_t header_bytes = std::size_t{16} << 10;
  std::size_t all_body_bytes = std::size_t{256} << 20;  // of the bodies that nobody has taken yet
  std::size_t unread_bytes = std::size_t{1} << 20;  // of a stream that its client does not read fast enough
  std::size_t connections = 4096;
  std::chrono::milliseconds header_time{10'000};  // until a request's headers are complete
  std::chrono::milliseconds body_time{120'000};   // until its body is
  std::chrono::milliseconds idle_time{75'000};    // between the requests of a connection
  std::chrono::milliseconds stall_time{60'000};   // of a client that reads nothing
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  HttpLimits limits{};
  // Looks at a request before its body is read; a response refuses it. May be null.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> gate{};
  // Answers a request. Must not block: it runs on the server's thread.
  std::function<void(std::shared_ptr<HttpExchange> exchange)> handle{};
  // The response to what is not a request, too large or too slow.
  std::function<HttpResponse(int status, std::string_view message)> refuse{};
};

class HttpServer {
 public:
  // Listens, and answers from then on. Throws ConfigError if it cannot listen there.
  explicit HttpServer(HttpOptions options);
  // Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  // Open connections.
  std::size_t connections() const;
  // Requests that the gate let pass and that have not been answered, those whose body is being read included.
  std::size_t open_requests() const;

  // From any thread: calls on the server's thread, in order.
  void post(std::function<void()> call);
  void post_after(std::chrono::milliseconds delay, std::function<void()> call);
  // Calls on the server's thread whenever there is something to read at the descriptor, until the call
  // returns false. The descriptor stays the caller's.
  void when_readable(int descriptor, std::function<bool()> call);

  // Waits until what was sent has been written to all connections, at most this long.
  void flush(std::chrono::milliseconds longest);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tp
