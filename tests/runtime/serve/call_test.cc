// A call ends once and is freed, no matter when the events of its requests arrive.
#include "runtime/serve/call.h"

#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"

#include <future>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

class HeldExchange final : public HttpExchange {
 public:
  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return {}; }
  void respond(HttpResponse response) override { response_.set_value(std::move(response)); }
  void begin_stream(HttpResponse /*head*/) override {}
  void write(std::string /*piece*/) override {}
  void end_stream() override {}
  void on_abandoned(std::function<void()> /*callback*/) override {}

  std::future<HttpResponse> response() { return response_.get_future(); }

 private:
  HttpRequest request_{.method = "POST", .target = "/"};
  std::promise<HttpResponse> response_;
};

// A call that stays in on_submitted() until the test releases it.
class SlowCall final : public Call {
 public:
  SlowCall(Service& service, std::shared_ptr<HttpExchange> exchange) : Call(service, std::move(exchange)) {}

  std::promise<void> has_submitted, may_go_on;

 private:
  void on_submitted() override {
    happened_ += "submitted ";
    has_submitted.set_value();
    may_go_on.get_future().wait();
    happened_ += "on ";
  }
  void on_event(std::size_t request, const Event& event, Clock::time_point /*time*/) override {
    if (std::holds_alternative<RequestFinished>(event)) happened_ += "end " + std::to_string(request) + " ";
  }
  void finish() override {
    exchange().respond({.body = happened_});
    close(200, "stop");
  }
  LoggedRequest usage() const override { return {}; }

  std::string happened_;
};

// The engine's thread may end all requests while the call's thread is still submitting them.
TEST(Call, EndsOnceIfTheLastEventArrivesDuringSubmission) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  run_engine(world(), {.model = fixture.folder}, [&](Engine& engine) {
    Service service({.model_names = {"m"}});
    service.model.engine = &engine;
    const auto exchange = std::make_shared<HeldExchange>();
    const auto call = std::make_shared<SlowCall>(service, exchange);
    std::future<HttpResponse> response = exchange->response();
    call->start({greedy_request(fixture.prompt, 2), greedy_request(fixture.prompt, 2)}, "prompt");
    call->has_submitted.get_future().wait();
    while (engine.has_work()) engine.step();
    call->may_go_on.set_value();
    const std::string happened = response.get().body;
    EXPECT_TRUE(happened == "submitted on end 0 end 1 " || happened == "submitted on end 1 end 0 ")
        << happened;
    service.events.stop();
    EXPECT_TRUE(service.calls.empty());
    EXPECT_EQ(call.use_count(), 1) << "an ended call is owned by nobody";
  });
}

}  // namespace
}  // namespace tp::test
