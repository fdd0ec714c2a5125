// A gateway in front of ten models, of which two groups share their hosts, under random requests, departures
// of clients, kills of jobs, and the switches that follow: no event is lost or sent twice, no job is left
// behind, and the gateway keeps nothing of requests that have ended.
//
// CTest runs a few hundred requests. By hand, from another seed:
//   TP_GATEWAY_SOAK=2000 TP_GATEWAY_SEED=3 build/bin/gateway_end_to_end_test --gtest_filter=GatewayFleet.*
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
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

constexpr std::size_t kModels = 10;
constexpr std::size_t kFleetClients = 12;

// Configures four models in each of two groups, one model that always runs, and one that stops when it is
// idle.
std::string write_config(const TemporaryDirectory& folder) {
  json models = json::array();
  for (std::size_t i = 0; i < kModels; ++i) {
    const std::string group = i < 4 ? "g" : i < 8 ? "h" : "";
    const std::string lock = group.empty() ? "" : (folder.path() / group).string();
    json model = {{"name", fmt::format("m{}", i)},
                  {"commands", {fake_command_of(fmt::format("m{}", i), lock)}}};
    if (!group.empty()) model.update({{"group", group}, {"switch_after", 0.2}});
    if (i == 8) model["start"] = "always";
    if (i == 9) model["idle_stop"] = 0.3;
    models.push_back(model);
  }
  const std::string file = (folder.path() / "gateway.json").string();
  std::ofstream(file) << json{{"models", models}};
  return file;
}

// Returns a description of the reply's fault, or an empty text.
std::string fault_of(const HttpReply& reply, const std::string& model, int tokens) {
  const std::vector<std::string> events = reply.events();
  bool is_right = events.size() == static_cast<std::size_t>(tokens) + 1 && events.back() == "[DONE]";
  for (int i = 0; is_right && i < tokens; ++i)
    is_right =
        events[static_cast<std::size_t>(i)] == fmt::format("{{\"token\":{},\"name\":\"{}\"}}", i, model);
  return is_right ? "" : fmt::format("{} of {}, {} tokens: {}", reply.status, model, tokens, reply.body);
}

// Sends a stream, a whole request, or a request whose client leaves. Returns a description of the fault, or
// an empty text.
std::string try_model(std::uint16_t port, std::mt19937& random) {
  const std::string model = fmt::format("m{}", random() % kModels);
  const int tokens = static_cast<int>(random() % 20);
  json wish = {{"model", model}, {"tokens", tokens}, {"delay_ms", random() % 8},
               {"name", true},   {"stream", true},   {"padding", std::string(random() % 3000, 'x')}};
  switch (random() % 8) {
    case 0: {
      HttpClient client(port);
      client.send(request_text("POST", kPath, wish.dump()));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
      return {};
    }
    case 1:
    case 2: {
      wish.update({{"whole", true}, {"stream", false}});
      const HttpReply reply = post(port, kPath, wish);
      return reply.status == 200 && reply.json() == json{{"tokens", tokens}} ? "" : model + reply.body;
    }
    default:
      return fault_of(post(port, kPath, wish), model, tokens);
  }
}

// Kills a job that is ready. Jobs that die while they start make their model fail, and the requests that wait
// for it with it: this is another test's subject. Returns whether there was one.
bool kill_a_job(GatewayProgram& gateway, std::mt19937& random) {
  std::vector<pid_t> jobs;
  for (std::size_t i = 0; i < kModels; ++i) {
    const std::string model = fmt::format("m{}", i);
    if (gateway.state_of(model) != "ready") continue;
    if (const pid_t job = gateway.fake_job(model); job > 1) jobs.push_back(job);
  }
  if (jobs.empty()) return false;
  send_signal(jobs[random() % jobs.size()], SIGKILL);
  return true;
}

TEST(GatewayFleet, AnswersRandomRequestsWhileJobsDieAndSwitch) {
  const std::size_t requests = number_in("TP_GATEWAY_SOAK", 250);
  const auto seed = static_cast<std::uint32_t>(number_in("TP_GATEWAY_SEED", 1));
  const TemporaryDirectory folder;
  const std::string config = write_config(folder);
  GatewayProgram gateway({}, {"--config", config, "--drain-seconds", "1", "--ping-seconds", "1"});
  std::atomic<std::size_t> begun = 0;
  std::vector<std::future<std::string>> clients;
  for (std::size_t i = 0; i < kFleetClients; ++i) {
    clients.push_back(std::async(std::launch::async, [&, i] {
      std::mt19937 random(seed * 1000 + static_cast<std::uint32_t>(i));
      std::string errors;
      while (begun++ < requests && errors.size() < 1000) {
        const std::string error = try_model(gateway.port(), random);
        if (!error.empty()) errors += error + "\n";
      }
      return errors;
    }));
  }
  std::mt19937 random(seed);
  double early_megabytes = 0.0;
  std::size_t kills = 0;
  std::size_t begun_at_last_kill = 0;
  const auto is_running = [&] {
    return std::ranges::any_of(clients,
                               [](auto& client) { return client.wait_for(0s) != std::future_status::ready; });
  };
  while (is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300 + random() % 900));
    if (begun > requests / 4 && early_megabytes == 0.0)
      early_megabytes = resident_megabytes(gateway.process().pid());
    // An answer whose job is lost three times in a row is given up.
    if (begun < begun_at_last_kill + kFleetClients) continue;
    if (kill_a_job(gateway, random)) {
      ++kills;
      begun_at_last_kill = begun;
    }
  }
  for (auto& client : clients) EXPECT_EQ(client.get(), "");
  for (const char* group : {"g", "h"})
    EXPECT_EQ(std::filesystem::file_size(folder.path() / group), 0U)
        << "two jobs of a group ran at the same time";
  double resumed = 0.0;
  for (std::size_t i = 0; i < kModels; ++i) {
    const std::string label = fmt::format("{{model=\"m{}\"}}", i);
    EXPECT_TRUE(comes_true([&] { return gateway.metric("kept_requests" + label) == 0.0; })) << i;
    EXPECT_EQ(gateway.metric("kept_bytes" + label), 0.0);
    resumed += gateway.metric("resumed_answers_total" + label);
  }
  EXPECT_GT(gateway.metric("switches_total"), 0.0);
  EXPECT_LT(resident_megabytes(gateway.process().pid()), early_megabytes + 20.0);
  std::printf("%zu requests, %zu kills, %.0f switches, %.0f resumed answers, %.1f MB, before %.1f MB\n",
              requests, kills, gateway.metric("switches_total"), resumed,
              resident_megabytes(gateway.process().pid()), early_megabytes);
  gateway.end();
}

}  // namespace
}  // namespace tp::test
