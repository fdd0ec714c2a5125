// One call of the API: its exchange, its requests to the engine, and its end. Derived classes define the
// answer.
//
// Life of a call
// 1. An endpoint creates a call on a thread of the pool and starts it. From then on, only tasks of the call's
//    queue access its members, one task at a time, regardless of the thread that posts them.
// 2. The first task submits the requests. Their events arrive on the main thread, which must not wait, so a
//    sink only posts a task. Tasks of early events run after the first task.
// 3. The call ends once, in `close`: after its last request has ended, or with an error. The error may come
//    from a task, from an event, or from another thread by `fail` (the server ends, or a rank is lost). Later
//    tasks find `has_ended()` and do nothing.
// 4. If the client leaves, the server's thread posts `cancel`. The requests then end with RequestCancelled.
// 5. Queued tasks, sinks, and the exchange's callback own the call. `close` releases the exchange, which owns
//    the callback and counts as an open request. So an ended call is not part of an ownership cycle.
#pragma once

#include "runtime/api/api_error.h"
#include "runtime/http/http_exchange.h"
#include "runtime/serve/service.h"
#include "runtime/serve/worker_pool.h"
#include "tp/event.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class Call : public std::enable_shared_from_this<Call> {
 public:
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Submits the requests. `member`: the member of the client's body that determines their number, for errors.
  // Throws RequestError if there are more requests than the queue can ever hold.
  void start(std::vector<Request> requests, std::string_view member);
  // From any thread: ends the call with an error.
  void fail(const ApiError& error);

 protected:
  using Clock = std::chrono::steady_clock;

  Call(Service& service, std::shared_ptr<HttpExchange> exchange);

  // All functions below run in tasks of the queue; an exception ends the call with an error.
  virtual void on_submitted() {}
  virtual void on_event(std::size_t request, const Event& event, Clock::time_point time) = 0;
  // Called after all requests have ended, if the client is still connected.
  virtual void finish() = 0;
  // Converts an exception to an error for the client, in the terms of its API.
  virtual ApiError error_of(const std::exception& error) const { return api_error_of(error); }
  virtual void send_error(const ApiError& error);
  // The call's part of its line in the log: its id, tokens, times and warnings.
  virtual LoggedRequest usage() const = 0;

  void post(std::function<void()> task);
  void end_with(const ApiError& error);
  void close(int status, std::string reason, std::string param = "");
  bool has_ended() const { return exchange_ == nullptr; }
  HttpExchange& exchange() { return *exchange_; }

  Service& service_;
  const Clock::time_point came_ = Clock::now();

 private:
  void submit(const std::vector<Request>& requests);
  void cancel();
  void handle(std::size_t request, const Event& event, Clock::time_point time);

  std::shared_ptr<HttpExchange> exchange_;  // null after the end
  TaskQueue queue_;
  std::vector<RequestId> requests_;
  std::size_t open_requests_ = 0;
  bool is_abandoned_ = false;  // the client has left
};

}  // namespace tp
