// One call of the API that returns vectors or scores of its sequences.
#pragma once

#include "runtime/serve/call.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

class PooledCall : public Call {
 public:
  // Makes the answer from the pooled hidden states of all requests, in a task of the call's queue. An
  // exception becomes an error of the call.
  using Answer = std::function<nlohmann::ordered_json(std::vector<std::vector<float>> states)>;

  // Submits the requests, which must ask for pooled states. `member`: as in Call::start. The answer follows
  // when all requests have ended. Throws RequestError if a request cannot be served.
  static void start(Service& service, std::shared_ptr<HttpExchange> exchange, std::vector<Request> requests,
                    std::string_view member, Answer answer);

  PooledCall(Service& service, std::shared_ptr<HttpExchange> exchange, const std::vector<Request>& requests,
             Answer answer);

 private:
  void on_event(std::size_t request, const Event& event, Clock::time_point time) override;
  void finish() override;
  LoggedRequest usage() const override { return {.prompt_tokens = tokens_}; }

  Answer answer_;
  std::vector<std::vector<float>> states_;
  std::size_t tokens_ = 0;
};

}  // namespace tp
