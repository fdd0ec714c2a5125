// The server: listens from the beginning, and answers once a model is open.
#pragma once

#include "runtime/http/http_server.h"
#include "runtime/serve/router.h"
#include "runtime/serve/service.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace tp {

class Server {
 public:
  // Listens; /health says that the model is being loaded. Throws ConfigError if it cannot listen there.
  explicit Server(const ServeOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return http_.port(); }
  const std::string& model_name() const { return service_.model_name(); }

  // Rank 0: answers requests, steps the engine while there are any, and returns when drain() or leave() ends
  // it. `on_ready` is called when it begins. An error of a step is told to all clients before it is thrown
  // on.
  void run(OpenModel model, const std::function<void()>& on_ready);

  // From any thread: takes no more requests; run() returns when those that came have ended, or after this
  // long, when they are told so.
  void drain(std::chrono::milliseconds longest);
  // From any thread: run() returns after the current step. If that takes long, perhaps because a rank is
  // stopped, clients are told, and `if_stuck` is called on the server's thread.
  void leave(const std::function<void()>& if_stuck);
  // From any thread: a rank is lost, perhaps, and the job is about to be ended. If the step that runs now
  // does not return within `patience`, its clients are told.
  void suspect_loss(std::chrono::milliseconds patience);

  // Calls on the server's thread whenever there is something to read at the descriptor, until it returns
  // false.
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
  Router router_{service_};
  HttpServer http_;
  std::atomic<bool> leaves_ = false;
  std::atomic<bool> has_returned_ = false;  // run()
  std::atomic<Clock::time_point> drained_by_ = Clock::time_point::max();
  std::atomic<std::uint64_t> steps_ = 0;  // that have returned
  std::atomic<bool> is_stepping_ = false;
  Clock::time_point last_report_{};
  double share_of_waiting_ = 0.0;  // in rank 0's collectives
  bool has_stepped_ = false;       // since the last report
};

}  // namespace tp
