// Sends requests to the job, and answers to the clients. README.md explains suspects and limits.
#pragma once

#include "runtime/gateway/kept_request.h"
#include "runtime/gateway/supervisor.h"
#include "runtime/http/http_server.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tp {

// All members run on the thread of the HTTP server.
class Dispatcher {
 public:
  // `supervisor` must outlive the dispatcher.
  Dispatcher(HttpServer& http, Supervisor& supervisor) : http_(http), supervisor_(supervisor) {}

  // `append`: text to add to the body of the answer; null: none.
  void add(std::shared_ptr<HttpExchange> exchange, const std::function<std::string()>& append = {});

  // Sends waiting requests to the job, if it is ready.
  void dispatch();
  // The requests in flight wait for another job.
  void on_lost(bool is_failure);
  // Ends all requests with this error.
  void fail_all(const ApiError& error);

  std::size_t kept_requests() const { return requests_.size(); }
  std::size_t kept_bytes() const { return bytes_; }
  std::size_t resumed() const { return resumed_; }

 private:
  using Number = std::uint64_t;  // in order of arrival
  using Request = std::shared_ptr<KeptRequest>;

  void send(Number number, const Request& request);
  void handle(Number number, KeptRequest::Progress progress);
  void wait_again(Number number, bool is_failure);
  bool is_refused(Number number, const Request& request);
  void remove(Number number);
  std::size_t in_flight() const;

  HttpServer& http_;
  Supervisor& supervisor_;
  std::map<Number, Request> requests_{};
  Number next_ = 1;
  Number alone_ = 0;  // the suspect that is tried alone; 0: none
  std::size_t bytes_ = 0;
  std::size_t resumed_ = 0;  // answers that were continued after tokens of an earlier job
};

}  // namespace tp
