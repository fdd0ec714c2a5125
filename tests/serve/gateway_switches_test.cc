// Models that share hosts: the gateway starts and stops their jobs, so that only one model of a group runs.
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Models of one group, whose jobs report if two of them run.
class Group {
 public:
  void add(const std::string& name, const json& members = json::object(), const std::string& script = "") {
    json model = {{"name", name}, {"group", "g"}, {"commands", {fake_command_of(name, lock_, script)}}};
    model.update(members);
    models_.push_back(model);
  }
  Arguments options(const Arguments& others = {}) const {
    const std::string file = (folder_.path() / "gateway.json").string();
    std::ofstream(file) << json{{"models", models_}};
    Arguments all = {"--config", file};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }
  bool is_exclusive() const {
    std::error_code ignored;
    return std::filesystem::exists(lock_) && std::filesystem::file_size(lock_, ignored) == 0;
  }

 private:
  TemporaryDirectory folder_;
  std::string lock_ = (folder_.path() / "lock").string();
  json models_ = json::array();
};

json question(const std::string& model, int tokens = 3, int delay_ms = 0) {
  return {{"model", model}, {"tokens", tokens}, {"delay_ms", delay_ms}, {"stream", true}};
}

std::future<HttpReply> ask(const GatewayProgram& gateway, const json& body) {
  return std::async(std::launch::async, [&gateway, body] { return gateway.post(kPath, body); });
}

bool is_whole(const HttpReply& reply, int tokens) {
  const std::vector<std::string> events = reply.events();
  if (events.size() != static_cast<std::size_t>(tokens) + 1 || events.back() != "[DONE]") return false;
  for (int i = 0; i < tokens; ++i) {
    if (events[static_cast<std::size_t>(i)] != fmt::format("{{\"token\":{}}}", i)) return false;
  }
  return true;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(GatewaySwitches, StopAnIdleJobAtOnce) {
  Group group;
  group.add("a", {{"switch_after", 1000}});
  group.add("b", {{"switch_after", 1000}});
  GatewayProgram gateway({}, group.options());
  for (const char* model : {"a", "b", "a", "a", "b"})
    EXPECT_TRUE(is_whole(gateway.post(kPath, question(model)), 3));
  EXPECT_EQ(gateway.state_of("a"), "stopped");
  EXPECT_EQ(gateway.state_of("b"), "ready");
  EXPECT_EQ(gateway.metric("switches_total"), 3.0);
  EXPECT_TRUE(group.is_exclusive());
  const std::string log = gateway.end();
  EXPECT_NE(log.find("a: ends, because a request waits for `b`"), std::string::npos) << log;
}

TEST(GatewaySwitches, WaitForRunningAnswers) {
  Group group;
  group.add("a", {{"switch_after", 2}});
  group.add("b");
  GatewayProgram gateway({}, group.options());
  // The answer ends before `switch_after`, so the switch follows immediately after it.
  auto running = ask(gateway, question("a", 20, 50));
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  EXPECT_TRUE(is_whole(gateway.post(kPath, question("b")), 3));
  EXPECT_EQ(running.wait_for(0s), std::future_status::ready);
  EXPECT_TRUE(is_whole(running.get(), 20));
  // The answer takes longer than `switch_after`. The job is drained, and the answer ends before the other job
  // starts.
  auto longer = ask(gateway, question("a", 70, 50));
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  const auto begin = Clock::now();
  auto waiting = ask(gateway, question("b"));
  ASSERT_TRUE(gateway.comes_to("a", "draining"));
  EXPECT_GT(seconds_since(begin), 1.5);
  EXPECT_TRUE(is_whole(waiting.get(), 3));
  EXPECT_EQ(longer.wait_for(0s), std::future_status::ready);
  EXPECT_TRUE(is_whole(longer.get(), 70));
  EXPECT_EQ(gateway.metric("resumed_answers_total{model=\"a\"}"), 0.0);
  EXPECT_TRUE(group.is_exclusive());
  gateway.end();
}

// Answers that take longer than the drain continue after the next switch.
TEST(GatewaySwitches, ContinueLongAnswersInTurns) {
  Group group;
  group.add("a", {{"switch_after", 0.5}});
  group.add("b", {{"switch_after", 0.5}});
  GatewayProgram gateway({}, group.options({"--drain-seconds", "0"}));
  auto first = ask(gateway, question("a", 60, 50));
  auto second = ask(gateway, question("b", 60, 50));
  EXPECT_TRUE(is_whole(first.get(), 60));
  EXPECT_TRUE(is_whole(second.get(), 60));
  EXPECT_GT(gateway.metric("switches_total"), 2.0);
  EXPECT_GT(gateway.metric("resumed_answers_total{model=\"a\"}"), 0.0);
  EXPECT_EQ(gateway.metric("restarts_total{model=\"a\"}"), 0.0) << "no job was lost";
  EXPECT_TRUE(group.is_exclusive());
  gateway.end();
}

TEST(GatewaySwitches, NeverInterruptAStartThatRequestsWaitFor) {
  Group group;
  group.add("a", {{"switch_after", 0}}, "sleep 2");
  group.add("b", {{"switch_after", 0}}, "sleep 2");
  GatewayProgram gateway({}, group.options());
  auto first = ask(gateway, question("a"));
  ASSERT_TRUE(gateway.comes_to("a", "starting"));
  EXPECT_TRUE(is_whole(gateway.post(kPath, question("b")), 3));
  EXPECT_TRUE(is_whole(first.get(), 3));
  EXPECT_EQ(gateway.metric("starts_total{model=\"a\"}"), 1.0);
  EXPECT_TRUE(group.is_exclusive());
  gateway.end();
}

// The client has left, so nobody waits for the start.
TEST(GatewaySwitches, InterruptAStartThatNobodyWaitsFor) {
  Group group;
  group.add("a", json::object(), "sleep 1000");
  group.add("b");
  GatewayProgram gateway({}, group.options());
  HttpClient client(gateway.port());
  client.send(request_text("POST", kPath, question("a").dump()));
  ASSERT_TRUE(gateway.comes_to("a", "starting"));
  client.close();
  EXPECT_TRUE(is_whole(gateway.post(kPath, question("b")), 3));
  EXPECT_TRUE(gateway.comes_to("a", "stopped"));
  gateway.end();
}

// Otherwise, two models could give way to each other after every token.
TEST(GatewaySwitches, LetAJobServeAsLongAsItsStartTook) {
  Group group;
  group.add("a", {{"switch_after", 0}}, "sleep 2");
  group.add("b");
  GatewayProgram gateway({}, group.options());
  auto running = ask(gateway, question("a", 100, 50));
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  const auto begin = Clock::now();
  auto waiting = ask(gateway, question("b"));
  ASSERT_TRUE(gateway.comes_to("a", "draining"));
  EXPECT_GT(seconds_since(begin), 1.5);
  EXPECT_TRUE(is_whole(running.get(), 100));
  EXPECT_TRUE(is_whole(waiting.get(), 3));
  gateway.end();
}

TEST(GatewaySwitches, TakeTheOldestRequestFirst) {
  Group group;
  for (const char* name : {"a", "b", "c", "d"}) group.add(name, {{"switch_after", 1000}});
  GatewayProgram gateway({}, group.options());
  std::vector<std::future<HttpReply>> answers;
  answers.push_back(ask(gateway, question("a", 30, 50)));
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  for (const char* name : {"d", "b", "c"}) {
    answers.push_back(ask(gateway, question(name)));
    ASSERT_TRUE(
        comes_true([&] { return gateway.metric(fmt::format("kept_requests{{model=\"{}\"}}", name)) == 1; }));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(is_whole(answers[i].get(), i == 0 ? 30 : 3));
    for (std::size_t later = i + 2; later < answers.size(); ++later)
      EXPECT_NE(answers[later].wait_for(0s), std::future_status::ready) << i << " before " << later;
  }
  EXPECT_TRUE(group.is_exclusive());
  gateway.end();
}

TEST(GatewaySwitches, BringBackTheModelThatAlwaysRuns) {
  Group group;
  group.add("a", {{"start", "always"}});
  group.add("b", {{"idle_stop", 0.5}});
  GatewayProgram gateway({}, group.options());
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  EXPECT_TRUE(is_whole(gateway.post(kPath, question("b")), 3));
  EXPECT_EQ(gateway.state_of("a"), "stopped");
  EXPECT_TRUE(gateway.comes_to("a", "ready"));
  EXPECT_EQ(gateway.state_of("b"), "stopped");
  EXPECT_TRUE(group.is_exclusive());
  gateway.end();
}

// A killed job restarts in its group, and a model that cannot start does not keep the group.
TEST(GatewaySwitches, GoOnAfterFailures) {
  Group group;
  group.add("a");
  group.add("b", json::object(), "exit 1");
  GatewayProgram gateway({}, group.options());
  auto first = ask(gateway, question("a", 40, 50));
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes{model=\"a\"}") > 200; }));
  auto second = ask(gateway, question("b"));
  send_signal(gateway.fake_job("a"), SIGKILL);
  EXPECT_TRUE(is_whole(first.get(), 40));
  EXPECT_EQ(second.get().status, 503);
  EXPECT_TRUE(gateway.comes_to("b", "stopped"));
  EXPECT_TRUE(is_whole(gateway.post(kPath, question("a")), 3));
  EXPECT_TRUE(group.is_exclusive());
  gateway.end();
}

// The gateway ends while one job drains to let the other one start.
TEST(GatewaySwitches, LeaveNoProcessesWhenTheGatewayEnds) {
  Group group;
  group.add("a", {{"switch_after", 0}});
  group.add("b");
  GatewayProgram gateway({}, group.options());
  auto running = ask(gateway, question("a", 40, 50));
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes{model=\"a\"}") > 100; }));
  auto waiting = ask(gateway, question("b"));
  ASSERT_TRUE(gateway.comes_to("a", "draining"));
  gateway.end();
  EXPECT_TRUE(is_whole(running.get(), 40)) << "running answers end before the gateway";
  EXPECT_EQ(waiting.get().status, 503);
}

// The text of a stream of completions, and the number of its tokens.
struct Streamed {
  std::string text{};
  int tokens = 0;

  explicit Streamed(const HttpReply& reply) {
    for (const std::string& event : reply.events()) {
      if (event == "[DONE]") continue;
      const json chunk = json::parse(event);
      for (const json& choice : chunk.at("choices")) text += choice.at("text").get<std::string>();
      if (chunk.contains("usage") && chunk["usage"].is_object())
        tokens = chunk["usage"].at("completion_tokens");
    }
  }
};

// Two models of one group run tp-infer serve on different numbers of ranks.
TEST(GatewaySwitches, ChangeNoBitOfAnswers) {
  const TemporaryDirectory folder;
  const std::string file = (folder.path() / "gateway.json").string();
  json models = json::array();
  for (const auto& [name, ranks] : {std::pair("one", kNoMpirun), {"two", std::size_t{2}}}) {
    models.push_back(
        {{"name", name},
         {"group", "g"},
         {"switch_after", 0},
         {"commands", {serve_command(ranks, {"--quiet", "--kv-store", folder.path().string()})}}});
  }
  std::ofstream(file) << json{{"models", models}};
  // Waiting streams get comments, so the clients wait as long as a busy machine needs.
  GatewayProgram gateway({}, {"--config", file, "--drain-seconds", "0", "--ping-seconds", "1"});
  const auto body = [](const char* model, int tokens) {
    return json{{"model", model},       {"prompt", "Once upon a time"},
                {"max_tokens", tokens}, {"seed", 5},
                {"temperature", 1},     {"ignore_eos", true},
                {"stream", true},       {"stream_options", {{"include_usage", true}}}};
  };
  constexpr int kLong = 700;
  constexpr int kShort = 100;
  const auto resumed = [&] { return gateway.metric("resumed_answers_total{model=\"one\"}"); };
  std::vector<Streamed> disturbed;
  std::vector<Streamed> others;
  // On a fast machine, the answers may end before their job is switched.
  for (int attempt = 0; attempt < 10 && resumed() == 0.0; ++attempt) {
    std::vector<std::future<HttpReply>> running;
    for (int i = 0; i < 2; ++i) running.push_back(ask(gateway, body("one", kLong)));
    EXPECT_TRUE(comes_true([&] {
      return gateway.metric("kept_bytes{model=\"one\"}") > 2000 ||
             running.front().wait_for(0s) == std::future_status::ready;
    }));
    others.emplace_back(gateway.post(kPath, body("two", kShort)));
    for (std::future<HttpReply>& answer : running) disturbed.emplace_back(answer.get());
  }
  EXPECT_GT(resumed(), 0.0);
  const Streamed undisturbed(gateway.post("/v1/completions", body("one", kLong)));
  for (const Streamed& answer : disturbed) {
    EXPECT_EQ(answer.text, undisturbed.text);
    EXPECT_EQ(answer.tokens, kLong);
  }
  for (const Streamed& answer : others) {
    EXPECT_TRUE(undisturbed.text.starts_with(answer.text)) << answer.text;
    EXPECT_EQ(answer.tokens, kShort);
  }
  gateway.end();
}

}  // namespace
}  // namespace tp::test
