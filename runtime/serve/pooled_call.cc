#include "runtime/serve/pooled_call.h"

#include "runtime/api/api_error.h"

#include <exception>
#include <utility>

namespace tp {

void PooledCall::start(Service& service, std::shared_ptr<HttpExchange> exchange,
                       std::vector<Request> requests, Answer answer) {
  const auto call =
      std::make_shared<PooledCall>(service, std::move(exchange), requests.size(), std::move(answer));
  try {
    call->submit(std::move(requests));
  } catch (...) {
    call->cancel();
    throw;
  }
  call->exchange_->on_abandoned([weak = call->weak_from_this()] {
    if (const auto abandoned = weak.lock()) abandoned->cancel();
  });
}

PooledCall::PooledCall(Service& service, std::shared_ptr<HttpExchange> exchange, std::size_t requests,
                       Answer answer)
    : service_(service),
      exchange_(std::move(exchange)),
      answer_(std::move(answer)),
      states_(requests),
      open_(requests) {}

void PooledCall::submit(std::vector<Request> requests) {
  for (std::size_t index = 0; index < requests.size(); ++index) {
    const std::size_t tokens = requests[index].prompt.size();
    const RequestId id = service_.model.engine->submit(
        std::move(requests[index]),
        [call = shared_from_this(), index](const Event& event) { call->on_event(index, event); });
    const std::lock_guard lock(mutex_);
    ids_.push_back(id);
    tokens_ += tokens;
  }
}

// On the main thread, which must not be held up: the answer is made elsewhere.
void PooledCall::on_event(std::size_t index, const Event& event) {
  const std::lock_guard lock(mutex_);
  if (const auto* pooled = std::get_if<PooledHidden>(&event)) {
    states_[index] = pooled->state;
    return;
  }
  if (const auto* rejected = std::get_if<RequestRejected>(&event)) error_ = rejected->error;
  if (const auto* token = std::get_if<TokenEvent>(&event); token != nullptr && !token->error.empty())
    failure_ = token->error;
  if (std::holds_alternative<RequestCancelled>(event)) is_cancelled_ = true;
  const bool is_last = std::holds_alternative<RequestFinished>(event) ||
                       std::holds_alternative<RequestCancelled>(event) ||
                       std::holds_alternative<RequestRejected>(event);
  if (is_last && --open_ == 0) service_.events.post([call = shared_from_this()] { call->finish(); });
}

void PooledCall::cancel() {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    ids = ids_;
  }
  for (const RequestId id : ids) service_.model.engine->cancel(id);
}

void PooledCall::finish() {
  if (is_cancelled_) return close(499, "abort");
  try {
    if (!error_.empty()) throw OverloadedError(error_);
    if (!failure_.empty()) throw Error(failure_);
    service_.respond_json(*exchange_, 200, answer_(std::move(states_)));
    close(200, "stop");
  } catch (const std::exception& error) {
    const ApiError reported = api_error_of(error);
    exchange_->respond(service_.response_of(exchange_->request(), reported));
    close(reported.status, "error");
  }
}

void PooledCall::close(int status, const std::string& reason) {
  const HttpRequest& request = exchange_->request();
  const double total = std::chrono::duration<double>(Clock::now() - came_).count();
  service_.log.add({.client = request.client,
                    .method = request.method,
                    .path = std::string(request.path()),
                    .status = status,
                    .prompt_tokens = tokens_,
                    .total = total,
                    .reason = reason});
  service_.metrics.count_end(
      {.reason = status == 499 ? "abort" : reason, .prompt_tokens = tokens_, .total = total});
  exchange_.reset();  // which counts as an open request
}

}  // namespace tp
