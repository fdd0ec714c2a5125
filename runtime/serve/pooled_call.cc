#include "runtime/serve/pooled_call.h"

#include <utility>

namespace tp {

void PooledCall::start(Service& service, std::shared_ptr<HttpExchange> exchange,
                       std::vector<Request> requests, std::string_view member, Answer answer) {
  const auto call = std::make_shared<PooledCall>(service, std::move(exchange), requests, std::move(answer));
  static_cast<Call&>(*call).start(std::move(requests), member);
}

PooledCall::PooledCall(Service& service, std::shared_ptr<HttpExchange> exchange,
                       const std::vector<Request>& requests, Answer answer)
    : Call(service, std::move(exchange)), answer_(std::move(answer)), states_(requests.size()) {
  for (const Request& request : requests) tokens_ += request.prompt.size();
}

void PooledCall::on_event(std::size_t request, const Event& event, Clock::time_point /*time*/) {
  if (const auto* pooled = std::get_if<PooledHidden>(&event)) states_[request] = pooled->state;
  if (const auto* token = std::get_if<TokenEvent>(&event); token != nullptr && !token->error.empty())
    end_with({.status = 500, .message = token->error});
}

void PooledCall::finish() {
  service_.respond_json(exchange(), 200, answer_(std::move(states_)));
  close(200, "stop");
}

}  // namespace tp
