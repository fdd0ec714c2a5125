// The gateway in front of tp-infer serve, whose ranks are killed at random times: every client gets the text
// and the usage of an undisturbed run.
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"
#include "tests/serve/tool_requests.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

struct Asked {
  std::string path;
  json body;
};

// Removes the members that differ between two runs of a request: ids, times, and counts that depend on the
// cache.
void remove_identity(json& value) {
  if (value.is_object()) {
    for (const char* name : {"id", "created", "created_at", "completed_at", "timings", "item_id", "call_id",
                             "cached_tokens", "cache_read_input_tokens", "input_tokens"})
      value.erase(name);
  }
  if (value.is_structured()) {
    for (json& part : value) remove_identity(part);
  }
}

// Returns the choice of an event of OpenAI's APIs. Events without a choice come last.
std::size_t choice_in(const json& event) {
  const bool has_choice = event.is_object() && event.contains("choices") && !event["choices"].empty();
  return has_choice ? event["choices"][0].at("index").get<std::size_t>() : SIZE_MAX;
}

// Returns the body or the events without these members. Events are sorted by choice, because choices arrive
// in any order.
json answer_of(const HttpReply& reply) {
  json answer = json::array();
  if (reply.headers.at("content-type").starts_with("text/event-stream")) {
    for (const std::string& event : reply.events())
      answer.push_back(event == "[DONE]" ? json(event) : json::parse(event));
  } else {
    answer.push_back(reply.json());
  }
  remove_identity(answer);
  std::stable_sort(answer.begin(), answer.end(),
                   [](const json& a, const json& b) { return choice_in(a) < choice_in(b); });
  return answer;
}

// Returns streaming and whole requests to all APIs for the demo model. Two of the APIs have no seed.
std::vector<Asked> requests(int tokens) {
  const json prompt = {
      {"prompt", "Once upon a time"}, {"max_tokens", tokens}, {"seed", 5}, {"temperature", 0.9}};
  const json chat = {{"messages", {{{"role", "user"}, {"content", "Tell me a story about Emma."}}}},
                     {"max_tokens", tokens},
                     {"seed", 6},
                     {"temperature", 0.9},
                     {"ignore_eos", true}};
  const json schema = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "s"},
        {"schema",
         {{"type", "object"},
          {"properties", {{"text", {{"type", "string"}, {"minLength", 40}, {"maxLength", 60}}}}},
          {"required", {"text"}}}}}}};
  const auto with = [](json body, const json& more) {
    body.update(more);
    return body;
  };
  std::vector<Asked> all;
  for (const bool stream : {true, false}) {
    const json how = {{"stream", stream}};
    all.push_back(
        {"/v1/completions", with(with(prompt, how), {{"logprobs", 2}, {"repetition_penalty", 1.1}})});
    all.push_back({"/v1/completions", with(with(prompt, how), {{"n", 2}, {"ignore_eos", true}})});
    all.push_back({"/v1/completions",
                   with(with(prompt, how), {{"prompt", {"The dog", "A cat"}}, {"stop", {"zebra", "xyz"}}})});
    all.push_back({"/v1/chat/completions", with(with(chat, how), {{"logprobs", true}})});
    all.push_back(
        {"/v1/chat/completions", with(with(chat, how), {{"response_format", schema}, {"max_tokens", 200}})});
    all.push_back({"/v1/chat/completions",
                   with(with(chat, how), {{"frequency_penalty", 0.5}, {"min_tokens", tokens / 2}})});
    all.push_back(
        {"/v1/responses",
         with(how, {{"input", "Tell me a story."}, {"max_output_tokens", tokens}, {"temperature", 0}})});
    all.push_back({"/v1/messages", with(with(chat, how), {{"temperature", 0}})});
  }
  return all;
}

std::vector<HttpReply> answers_to(const GatewayProgram& gateway, const std::vector<Asked>& all) {
  std::vector<std::future<HttpReply>> replies;
  for (const Asked& asked : all)
    replies.push_back(
        std::async(std::launch::async, [&gateway, &asked] { return gateway.post(asked.path, asked.body); }));
  std::vector<HttpReply> found;
  for (auto& reply : replies) found.push_back(reply.get());
  return found;
}

// Kills or stops a random process of the job. Returns a description.
std::string disturb(const GatewayProgram& gateway, std::size_t ranks, std::mt19937& random) {
  const std::size_t victim = random() % (ranks + 1);
  const bool is_launcher = victim == ranks;
  const pid_t process = is_launcher
                            ? gateway.mpirun()
                            : const_cast<GatewayProgram&>(gateway).process().rank(static_cast<int>(victim));
  const bool stops = !is_launcher && random() % 4 == 0;
  send_signal(process, stops ? SIGSTOP : SIGKILL);
  return fmt::format("{} {} ", stops ? "stop" : "kill", is_launcher ? "mpirun" : std::to_string(victim));
}

using Duration = std::chrono::steady_clock::duration;

// `whole`: how long undisturbed answers take. If a request gets no token from three jobs in a row, the
// gateway gives it up, so every third job lives longer.
Duration time_until_kill(std::size_t killed, Duration whole, std::mt19937& random) {
  return whole * (killed % 3 == 2 ? 40 + random() % 40 : random() % 40) / 100;
}

// TP_GATEWAY_KILLS sets the number of kills, and TP_GATEWAY_SEED the seed.
void expect_undisturbed_answers(std::size_t ranks, std::size_t kills, int tokens) {
  const std::size_t seed = number_in("TP_GATEWAY_SEED", 1);
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  GatewayProgram gateway(serve_command(ranks, {"--quiet"}), {"--hang-seconds", "3"});
  const std::vector<Asked> all = requests(tokens);
  std::vector<json> expected;
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<HttpReply> undisturbed = answers_to(gateway, all);
  const Duration whole = std::chrono::steady_clock::now() - begun;
  for (const HttpReply& reply : undisturbed) {
    ASSERT_EQ(reply.status, 200) << reply.body;
    expected.push_back(answer_of(reply));
  }
  std::size_t killed = 0;
  while (killed < kills) {
    auto answers = std::async(std::launch::async, [&] { return answers_to(gateway, all); });
    std::string done;
    while (killed < kills && gateway.is_ready() &&
           answers.wait_for(time_until_kill(killed, whole, random)) != std::future_status::ready) {
      done += disturb(gateway, ranks, random);
      ++killed;
      // The test waits until the gateway has noticed the loss.
      for (int i = 0; i < 1000 && gateway.get("/health").status == 200; ++i)
        std::this_thread::sleep_for(10ms);
    }
    const std::vector<HttpReply> found = answers.get();
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(found[i].status, 200) << all[i].path << all[i].body << found[i].body << done;
      EXPECT_TRUE(found[i].is_complete);
      EXPECT_EQ(answer_of(found[i]), expected[i]) << all[i].path << all[i].body << " after " << done;
    }
  }
  // The gateway counts a lost job when its mpirun has ended. If all answers were complete before the last
  // loss, nothing has waited for that yet.
  EXPECT_TRUE(gateway.is_ready());
  EXPECT_EQ(gateway.metric("restarts_total"), static_cast<double>(killed));
  EXPECT_EQ(gateway.metric("kept_requests"), 0.0);
  EXPECT_GT(gateway.metric("resumed_answers_total"), 0.0);
  gateway.end();
}

class GatewayKills : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(, GatewayKills, testing::Values(1, 2, 3),
                         [](const auto& ranks) { return std::to_string(ranks.param) + "Ranks"; });

TEST_P(GatewayKills, ChangeNoAnswer) {
  expect_undisturbed_answers(GetParam(), number_in("TP_GATEWAY_KILLS", 4), 150);
}

// Three jobs of 3, 2 and 1 ranks compute one answer. The configuration of commands is like the one in
// runtime/gateway/README.md.
TEST(Gateway, ContinuesAnAnswerOnFewerRanks) {
  const TemporaryDirectory folder;
  const std::string config = (folder.path() / "gateway.json").string();
  std::vector<std::vector<std::string>> commands;
  for (const std::size_t ranks : {3U, 2U, 1U}) {
    std::vector<std::string> command = {"sh", "-c", "test -e \"$0\" && exit 1; touch \"$0\"; exec \"$@\"",
                                        (folder.path() / std::to_string(ranks)).string()};
    const std::vector<std::string> serve = serve_command(ranks, {"--quiet"});
    command.insert(command.end(), serve.begin(), serve.end());
    commands.push_back(command);
  }
  std::ofstream(config) << config_text(commands);
  GatewayProgram gateway({}, {"--config", config});
  const json body = {{"prompt", "Once upon a time"},
                     {"max_tokens", 900},
                     {"seed", 5},
                     {"temperature", 1},
                     {"ignore_eos", true}};
  auto reply = std::async(std::launch::async, [&] { return gateway.post("/v1/completions", body); });
  double bytes = gateway.metric("kept_bytes");
  for (const std::size_t ranks : {3U, 2U}) {
    const std::string ready = fmt::format("a job of {} ranks", ranks);
    ASSERT_TRUE(gateway.process().wait_for_message(ready, 60));
    for (int i = 0; i < 3000 && gateway.metric("kept_bytes") < bytes + 500; ++i)
      std::this_thread::sleep_for(10ms);
    send_signal(gateway.process().rank(1), SIGKILL);
    bytes = gateway.metric("kept_bytes");
  }
  const HttpReply found = reply.get();
  ASSERT_EQ(found.status, 200) << found.body;
  const HttpReply again = gateway.post("/v1/completions", body);
  EXPECT_EQ(answer_of(found), answer_of(again)) << "the answer of one rank";
  EXPECT_EQ(gateway.metric("resumed_answers_total"), 2.0);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("process rank 1"), std::string::npos) << log;
  EXPECT_NE(log.find("a job of 1 rank on"), std::string::npos) << log;
}

TEST(Gateway, PassesTheServersOwnPagesAndErrors) {
  GatewayProgram gateway(serve_command(kNoMpirun, {"--quiet", "--api-key", "sesame"}));
  ASSERT_TRUE(gateway.is_ready());
  EXPECT_EQ(gateway.get("/").headers.at("content-type").substr(0, 9), "text/html");
  EXPECT_EQ(gateway.get("/v1/models").status, 401);
  EXPECT_EQ(get(gateway.port(), "/v1/models", {{"Authorization", "Bearer sesame"}}).json().at("data").size(),
            1U);
  const HttpReply wrong =
      post(gateway.port(), "/v1/completions", {{"prompt", 1.5}}, {{"X-Api-Key", "sesame"}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(post_text(gateway.port(), "/v1/messages", "{", {{"X-Api-Key", "sesame"}}).json().at("type"),
            "error");
  const HttpReply cors =
      get(gateway.port(), "/v1/models", {{"Origin", "http://localhost:3000"}, {"X-Api-Key", "sesame"}});
  EXPECT_EQ(cors.headers.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_NE(get(gateway.port(), "/metrics", {{"X-Api-Key", "sesame"}}).body.find("tpinfer:gateway_ready 1"),
            std::string::npos);
  gateway.end();
}

// The second job cannot listen at its port.
TEST(Gateway, ReportsThatTheJobsPortIsInUse) {
  GatewayProgram first(serve_command(kNoMpirun, {"--quiet"}));
  ASSERT_TRUE(first.is_ready());
  GatewayProgram second(serve_command(kNoMpirun, {"--quiet", "--port", std::to_string(first.port())}));
  const HttpReply reply = second.post("/v1/completions", {{"prompt", "x"}});
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.body.find("Address already in use"), std::string::npos) << reply.body;
  second.end();
  first.end();
}

}  // namespace
}  // namespace tp::test
