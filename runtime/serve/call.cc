#include "runtime/serve/call.h"

#include "tp/internal/require.h"

#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

bool is_last(const Event& event) {
  return std::holds_alternative<RequestFinished>(event) || std::holds_alternative<RequestCancelled>(event) ||
         std::holds_alternative<RequestRejected>(event);
}

}  // namespace

Call::Call(Service& service, std::shared_ptr<HttpExchange> exchange)
    : service_(service), exchange_(std::move(exchange)), queue_(service.events) {}

void Call::start(std::vector<Request> requests, std::string_view member) {
  const std::size_t max = service_.model.engine->status().max_queued;
  require<RequestError>(
      requests.size() <= max,
      "`{}`: expected at most {}, the number that can run and wait at the same time, found {}; send them "
      "in several calls, or start the server with a larger --max-queue",
      member, max, requests.size());
  service_.enter(shared_from_this());
  post([self = shared_from_this(), requests = std::move(requests)] { self->submit(requests); });
}

void Call::post(std::function<void()> task) {
  queue_.post([self = shared_from_this(), task = std::move(task)] {
    if (self->has_ended()) return;
    try {
      task();
    } catch (const std::exception& error) {
      self->end_with(self->error_of(error));
    }
  });
}

void Call::submit(const std::vector<Request>& requests) {
  Engine& engine = *service_.model.engine;
  const LeaderStatus status = engine.status();
  if (requests.size() > status.queue_room) {
    throw OverloadedError(
        fmt::format("cannot queue {} requests: expected at most {}, because the queue has no more room now; "
                    "try again in about {:.0f} s, or start the server with a larger --max-queue",
                    requests.size(), status.queue_room, status.retry_after_seconds),
        status.retry_after_seconds);
  }
  open_requests_ = requests.size();
  for (std::size_t index = 0; index < requests.size(); ++index) {
    const auto sink = [self = shared_from_this(), index](const Event& event) {
      self->post([self, index, event, time = Clock::now()] { self->handle(index, event, time); });
    };
    requests_.push_back(engine.submit(requests[index], sink));
    service_.metrics.count_prompt(requests[index].prompt.size());
  }
  exchange_->on_abandoned([self = shared_from_this()] { self->post([self] { self->cancel(); }); });
  on_submitted();
}

void Call::cancel() {
  is_abandoned_ = true;
  for (const RequestId request : requests_) service_.model.engine->cancel(request);
}

void Call::handle(std::size_t request, const Event& event, Clock::time_point time) {
  if (const auto* rejected = std::get_if<RequestRejected>(&event))
    return end_with(api_error_of(OverloadedError(rejected->error)));
  on_event(request, event, time);
  if (has_ended() || !is_last(event) || --open_requests_ != 0) return;
  if (is_abandoned_) return close(499, "abort");
  finish();
}

void Call::fail(const ApiError& error) {
  post([self = shared_from_this(), error] { self->end_with(error); });
}

void Call::end_with(const ApiError& error) {
  if (has_ended()) return;
  for (const RequestId request : requests_) service_.model.engine->cancel(request);
  try {
    send_error(error);
  } catch (const std::exception&) {  // the destroyed exchange answers with status 500
  }
  close(error.status, short_reason(error), error.param);
}

void Call::send_error(const ApiError& error) {
  exchange_->respond(service_.response_of(exchange_->request(), error));
}

void Call::close(int status, std::string reason, std::string param) {
  LoggedRequest ended = usage();
  ended.user = exchange_->request().user;
  ended.status = status;
  ended.total = std::chrono::duration<double>(Clock::now() - came_).count();
  ended.param = std::move(param);
  ended.reason = std::move(reason);
  service_.log_request(exchange_->request(), ended);
  service_.metrics.count_end(ended);
  service_.leave(this);
  exchange_.reset();
}

}  // namespace tp
