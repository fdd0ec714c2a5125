// The process in front of a job: README.md.
#pragma once

#include "runtime/gateway/dispatcher.h"
#include "runtime/gateway/supervisor.h"
#include "runtime/http/http_server.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct GatewayOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free port
  HttpLimits limits{};
  std::size_t keep_bytes = std::size_t{1} << 30;  // kept requests
  SupervisorOptions supervisor{};                 // without the URL
  std::function<void(const std::string& line)> log{};
};

class Gateway {
 public:
  // Listens. Throws ConfigError if it cannot listen at the address.
  explicit Gateway(GatewayOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  std::uint16_t port() const { return http_->port(); }

  // Starts the first job, and waits until the gateway has ended. Returns the reason if no command can start a
  // server, else an empty text.
  std::string run();

  // Both may be called from any thread. end() works like Supervisor::end().
  void reload(std::vector<std::vector<std::string>> commands);
  void end();
  // Calls `call` on the gateway's thread whenever the descriptor is readable, until `call` returns false.
  void when_readable(int descriptor, std::function<bool()> call) {
    http_->when_readable(descriptor, std::move(call));
  }

 private:
  using Exchange = std::shared_ptr<HttpExchange>;

  HttpOptions http_options();
  Supervisor::Events events();
  HttpDecision route(const HttpRequest& head);
  HttpResponse with_origins(const HttpRequest& head, HttpResponse response) const;
  HttpResponse refuse(const HttpRequest& head, const ApiError& error) const;
  std::optional<ApiError> refusal(const HttpRequest& head) const;
  ApiError unavailable() const;
  void answer_health(HttpExchange& exchange) const;
  void answer_metrics(const Exchange& exchange);
  void take_announcement(HttpExchange& exchange);
  std::string own_metrics() const;
  std::string url() const;

  const GatewayOptions options_;
  // A condition, because the thread sanitizer delivers no signals to a thread that waits for a future.
  std::condition_variable ended_;
  std::mutex mutex_;
  bool has_ended_ = false;
  // The server's thread may get a request before the constructor has ended.
  std::promise<void> constructed_;
  std::shared_future<void> is_constructed_ = constructed_.get_future().share();
  // Members of the server's thread. The server ends before them.
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tp
