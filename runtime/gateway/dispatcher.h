// Sends the requests for one model to its job, and answers to the clients. README.md explains suspects,
// limits and the queue.
#pragma once

#include "runtime/gateway/kept_request.h"
#include "runtime/gateway/supervisor.h"
#include "runtime/http/http_server.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tp {

struct DispatcherOptions {
  std::size_t max_queue = 1024;                 // requests that wait while no job is ready
  std::chrono::milliseconds ping_time{15'000};  // time between two comments to a stream that waits
  std::function<void(const std::string& line)> log{};
  std::function<void()> on_change{};  // a request has come, begun to wait, or ended
  // Called when the gateway ends a request with an error of its own.
  std::function<void(const KeptRequest& request, const ApiError& error)> on_failed{};
};

// All members run on the thread of the HTTP server.
class Dispatcher {
 public:
  using Clock = KeptRequest::Clock;

  // `supervisor` must outlive the dispatcher.
  Dispatcher(HttpServer& http, Supervisor& supervisor, DispatcherOptions options)
      : http_(http), supervisor_(supervisor), options_(std::move(options)) {}

  // Why no further request can be added now; nullopt if one can.
  std::optional<ApiError> refusal() const;
  // `append`: text to add to the body of the answer; null: none.
  void add(std::shared_ptr<KeptRequest> request, const std::function<std::string()>& append = {});

  // Sends waiting requests to the job, if it is ready.
  void dispatch();
  // The requests in flight wait for another job.
  void on_lost(bool is_failure);
  // Ends all requests with this error.
  void fail_all(const ApiError& error);
  // Ends the requests that only read something with this error.
  void fail_readers(const ApiError& error);
  // Sends comments to streams that wait. Call it regularly.
  void keep_alive();

  // The next three members ignore requests that only read something. Whether there are requests:
  bool has_work() const;
  // Since when the oldest request waits for a job; nullopt if none does.
  std::optional<Clock::time_point> waits_since() const;
  // When the last request came or ended.
  Clock::time_point last_used() const { return last_used_; }

  std::size_t kept_requests() const { return requests_.size(); }
  std::size_t waiting() const;
  std::size_t kept_bytes() const { return bytes_; }
  std::size_t resumed() const { return resumed_; }

 private:
  using Number = std::uint64_t;  // in order of arrival
  using Request = std::shared_ptr<KeptRequest>;

  void fail_if(const std::function<bool(const KeptRequest&)>& fails, const ApiError& error);
  void send(Number number, const Request& request);
  void handle(Number number, KeptRequest::Progress progress);
  void wait_again(Number number, bool is_failure);
  bool is_refused(Number number, const Request& request);
  void remove(Number number);
  std::size_t in_flight() const;
  void note_change(const KeptRequest& request);

  HttpServer& http_;
  Supervisor& supervisor_;
  DispatcherOptions options_;
  std::map<Number, Request> requests_{};
  Number next_ = 1;
  Number alone_ = 0;  // the suspect that is tried alone; 0: none
  Clock::time_point last_used_ = Clock::now();
  std::size_t bytes_ = 0;
  std::size_t resumed_ = 0;  // answers that were continued after tokens of an earlier job
};

}  // namespace tp
