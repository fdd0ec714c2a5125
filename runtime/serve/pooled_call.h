// One call of the API whose sequences become vectors or scores.
#pragma once

#include "runtime/http/http_exchange.h"
#include "runtime/serve/service.h"
#include "tp/event.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

class PooledCall : public std::enable_shared_from_this<PooledCall> {
 public:
  // What the answer is, given the pooled hidden states of all requests. Runs on a thread of the pool; an
  // exception becomes an error of the call.
  using Answer = std::function<nlohmann::ordered_json(std::vector<std::vector<float>> states)>;

  // Submits the requests, which ask for pooled states; the answer follows when all have ended. Throws
  // RequestError if one cannot be served.
  static void start(Service& service, std::shared_ptr<HttpExchange> exchange, std::vector<Request> requests,
                    Answer answer);

  PooledCall(Service& service, std::shared_ptr<HttpExchange> exchange, std::size_t requests, Answer answer);

 private:
  using Clock = std::chrono::steady_clock;

  void submit(std::vector<Request> requests);
  void on_event(std::size_t index, const Event& event);
  void cancel();
  void finish();
  void close(int status, const std::string& reason);

  Service& service_;
  std::shared_ptr<HttpExchange> exchange_;
  Answer answer_;
  const Clock::time_point came_ = Clock::now();
  std::mutex mutex_;  // guards the members below
  std::vector<RequestId> ids_;
  std::vector<std::vector<float>> states_;
  std::size_t open_ = 0;
  std::size_t tokens_ = 0;
  std::string error_;
  std::string failure_;  // of the model
  bool is_cancelled_ = false;
};

}  // namespace tp
