// The server: listens from the start, and answers requests once a model is open.
#pragma once

#include "runtime/http/http_server.h"
#include "runtime/serve/service.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace tp {

class Server {
 public:
  // Listens; /health reports that the model is loading. Throws ConfigError if it cannot listen at the
  // address.
  explicit Server(const ServeOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return http_.port(); }
  const std::string& model_name() const { return service_.model_name(); }

  // Rank 0: answers requests, steps the engine while it has work, and returns after drain() or leave(). Calls
  // `on_ready` at the beginning. If a step throws, all clients are told before the exception is rethrown.
  void run(OpenModel model, const std::function<void()>& on_ready);

  // Tells the gateway at this URL that the server is ready, at this host and this port. Calls `failed` on the
  // server's thread if the gateway cannot be told.
  void announce(const HttpUrl& gateway, std::size_t ranks,
                std::function<void(const std::string& error)> failed);

  // From any thread: see Service.
  std::optional<std::size_t> reload_keys() { return service_.reload_keys(); }

  // From any thread: refuses new requests. run() returns when the open requests have ended, or after
  // `longest`; then it tells their clients.
  void drain(std::chrono::milliseconds longest);
  // From any thread: makes run() return after the current step. If the step takes long, perhaps because a
  // rank is stopped, tells the clients and calls `if_stuck` on the server's thread.
  void leave(const std::function<void()>& if_stuck);
  // From any thread: a rank may be lost, and the job is about to end. If the current step does not return
  // within `patience`, tells its clients.
  void suspect_loss(std::chrono::milliseconds patience);

  // Calls `call` on the server's thread whenever the descriptor is readable, until `call` returns false.
  void when_readable(int descriptor, std::function<bool()> call) {
    http_.when_readable(descriptor, std::move(call));
  }

 private:
  using Clock = std::chrono::steady_clock;

  HttpOptions http_options();
  bool is_done();
  void step(Engine& engine);
  void report(Engine& engine, bool is_due);
  void tell_of_loss();
  void end(const ApiError& error);

  Service service_;
  HttpServer http_;
  std::atomic<bool> leaves_ = false;
  std::atomic<bool> has_returned_ = false;  // run() has returned
  std::atomic<Clock::time_point> drained_by_ = Clock::time_point::max();
  std::atomic<std::uint64_t> steps_ = 0;  // completed steps
  std::atomic<bool> is_stepping_ = false;
  Clock::time_point last_report_{};
  double share_of_waiting_ = 0.0;  // share of waiting in the time of rank 0's collectives
  bool has_stepped_ = false;       // since the last report
};

}  // namespace tp
