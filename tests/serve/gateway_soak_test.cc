// The gateway under random requests, beside idle clients, while its jobs are killed: every client gets its
// whole answer, and the gateway keeps nothing of requests that have ended.
//
// CTest runs a few hundred requests. By hand, from another seed:
//   TP_GATEWAY_SOAK=20000 TP_GATEWAY_SEED=3 build/bin/gateway_end_to_end_test --gtest_filter=GatewaySoak.*
#include "tests/serve/gateway_program.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::size_t kIdleClients = 300;
constexpr std::size_t kClients = 8;

// Sends a stream, a whole request, a large one without marks, or a request whose client leaves. Returns a
// description of the fault, or an empty text.
std::string try_request(std::uint16_t port, std::mt19937& random) {
  const int tokens = static_cast<int>(random() % 25);
  const json wish = {
      {"tokens", tokens}, {"delay_ms", random() % 4}, {"padding", std::string(random() % 5000, 'x')}};
  switch (random() % 8) {
    case 0: {
      HttpClient client(port);
      client.send(request_text("POST", kPath, wish.dump()));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
      return {};
    }
    case 1: {
      const std::size_t bytes = random() % 100'000;
      const HttpReply reply = post(port, kPath, {{"bytes", bytes}});
      return reply.body.size() == bytes ? "" : fmt::format("{} of {} bytes", reply.body.size(), bytes);
    }
    case 2:
    case 3: {
      json whole = wish;
      whole["whole"] = true;
      const HttpReply reply = post(port, kPath, whole);
      return reply.status == 200 && reply.json() == json{{"tokens", tokens}} ? "" : reply.body;
    }
    default: {
      const HttpReply reply = post(port, kPath, wish);
      const std::vector<std::string> events = reply.events();
      bool is_right = events.size() == static_cast<std::size_t>(tokens) + 1 && events.back() == "[DONE]";
      for (int i = 0; is_right && i < tokens; ++i)
        is_right = events[static_cast<std::size_t>(i)] == fmt::format("{{\"token\":{}}}", i);
      return is_right ? "" : fmt::format("{} tokens: {}", tokens, reply.body);
    }
  }
}

TEST(GatewaySoak, AnswersRandomRequestsWhileJobsDie) {
  const std::size_t requests = number_in("TP_GATEWAY_SOAK", 400);
  const auto seed = static_cast<std::uint32_t>(number_in("TP_GATEWAY_SEED", 1));
  GatewayProgram gateway(fake_command());
  ASSERT_TRUE(gateway.is_ready());
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (std::size_t i = 0; i < kIdleClients; ++i) {
    idle.push_back(std::make_unique<HttpClient>(gateway.port()));
    if (i % 2 == 0) idle.back()->send("POST /v1/completions HTTP/1.1\r\nHost: ");  // the client sends no more
  }
  std::atomic<std::size_t> begun = 0;
  std::vector<std::future<std::string>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::async(std::launch::async, [&, i] {
      std::mt19937 random(seed * 1000 + static_cast<std::uint32_t>(i));
      std::string errors;
      while (begun++ < requests && errors.size() < 1000) {
        const std::string error = try_request(gateway.port(), random);
        if (!error.empty()) errors += error + "\n";
      }
      return errors;
    }));
  }
  std::mt19937 random(seed);
  double early_megabytes = 0.0;
  std::size_t kills = 0;
  while (begun < requests || kills < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 600));
    if (begun > requests / 4 && early_megabytes == 0.0)
      early_megabytes = resident_megabytes(gateway.process().pid());
    const pid_t job = gateway.member("fake_job");
    if (job > 1) send_signal(job, SIGKILL);
    ++kills;
  }
  for (auto& client : clients) EXPECT_EQ(client.get(), "");
  EXPECT_GT(kills, 1U);
  EXPECT_EQ(gateway.metric("kept_requests"), 0.0);
  EXPECT_EQ(gateway.metric("kept_bytes"), 0.0);
  EXPECT_LT(resident_megabytes(gateway.process().pid()), early_megabytes + 20.0);
  std::printf("%zu requests, %zu kills, %.0f resumed answers, %.1f MB, before %.1f MB\n", requests, kills,
              gateway.metric("resumed_answers_total"), resident_megabytes(gateway.process().pid()),
              early_megabytes);
  idle.clear();
  gateway.end();
}

}  // namespace
}  // namespace tp::test
