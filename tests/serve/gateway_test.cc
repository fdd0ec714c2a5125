// The gateway in front of fake_job.cc, which does what each request asks for.
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

std::vector<std::string> expected_events(int tokens) {
  std::vector<std::string> events;
  for (int i = 0; i < tokens; ++i) events.push_back(fmt::format("{{\"token\":{}}}", i));
  events.emplace_back("[DONE]");
  return events;
}

TEST(Gateway, PassesRequestsAndAnswersThrough) {
  GatewayProgram gateway(fake_command());
  const HttpReply stream = gateway.post(kPath, {{"tokens", 5}});
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(stream.events(), expected_events(5));
  EXPECT_EQ(stream.body.find(": tp"), std::string::npos);
  EXPECT_EQ(stream.headers.count("tp-marks"), 0U);
  const HttpReply whole = gateway.post(kPath, {{"tokens", 5}, {"whole", true}});
  EXPECT_EQ(whole.json(), (json{{"tokens", 5}}));
  EXPECT_EQ(whole.headers.at("content-type"), "application/json");
  EXPECT_EQ(gateway.post(kPath, {{"bytes", 3000000}}).body, std::string(3000000, 'x'));
  EXPECT_EQ(gateway.get("/any/thing").body, "0 bytes");
  EXPECT_EQ(post_text(gateway.port(), "/v1/embeddings", std::string(30 << 20, ' ')).body,
            std::to_string(30 << 20) + " bytes");
  EXPECT_EQ(gateway.get("/health").json().at("state"), "ready");
  EXPECT_EQ(gateway.metric("kept_requests"), 0.0);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("a job of 1 rank on here is ready at 127.0.0.1:"), std::string::npos) << log;
}

TEST(Gateway, FinishesAStreamWhoseJobsDie) {
  GatewayProgram gateway(fake_command());
  HttpClient client(gateway.port());
  client.send(request_text("POST", kPath, json{{"tokens", 60}, {"delay_ms", 20}}.dump()));
  for (const int token : {3, 20, 40}) {
    ASSERT_NE(client.read_until(fmt::format("\"token\":{}}}", token)), "");
    send_signal(gateway.member("fake_job"), SIGKILL);
  }
  EXPECT_EQ(client.read().events(), expected_events(60));
  EXPECT_EQ(gateway.metric("restarts_total"), 3.0);
  EXPECT_EQ(gateway.metric("resumed_answers_total"), 3.0);
  EXPECT_GT(gateway.metric("lost_seconds_total"), 0.0);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("the job has ended: signal 9 (Killed); starting command 1 of 1 now; 1 request is kept"),
            std::string::npos)
      << log;
}

TEST(Gateway, ContinuesAWholeAnswerAfterItsTokens) {
  GatewayProgram gateway(fake_command());
  auto reply = std::async(std::launch::async, [&] {
    return gateway.post(kPath, {{"tokens", 30}, {"delay_ms", 30}, {"whole", true}});
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 100; })) << "it has some tokens";
  send_signal(gateway.member("fake_job"), SIGKILL);
  EXPECT_EQ(reply.get().json(), (json{{"tokens", 30}}));
  EXPECT_EQ(gateway.metric("resumed_answers_total"), 1.0);
  gateway.end();
}

// The job dies each time before the request gets a token, and other requests are not affected.
TEST(Gateway, EndsARequestThatKillsThreeJobs) {
  GatewayProgram gateway(fake_command());
  auto other = std::async(std::launch::async, [&] {
    return gateway.post(kPath, {{"tokens", 40}, {"delay_ms", 100}});
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 50; }));
  const HttpReply whole = gateway.post(kPath, {{"tokens", 5}, {"die_at", 0}, {"whole", true}});
  EXPECT_EQ(whole.status, 500);
  EXPECT_NE(whole.body.find("the server ended three times in a row"), std::string::npos) << whole.body;
  EXPECT_TRUE(comes_true([&] { return gateway.metric("restarts_total") == 3.0; }));
  const HttpReply begun = gateway.post(kPath, {{"tokens", 5}, {"die_at", 2}});
  EXPECT_EQ(begun.status, 200) << "the stream had begun";
  EXPECT_EQ(json::parse(begun.events().back()).at("error").at("type"), "server_error");
  EXPECT_EQ(other.get().events(), expected_events(40));
  EXPECT_EQ(gateway.metric("request_refused_total{status=\"500\"}"), 2.0);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("POST /v1/completions 500 by=gateway "), std::string::npos) << log;
}

TEST(Gateway, RestartsAJobThatHangs) {
  GatewayProgram gateway(fake_command(), {"--hang-seconds", "1"});
  auto stuck = std::async(std::launch::async, [&] {
    return gateway.post(kPath, {{"tokens", 20}, {"delay_ms", 100}});
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 50; }));
  send_signal(gateway.member("fake_job"), SIGSTOP);
  EXPECT_EQ(stuck.get().events(), expected_events(20));
  // Rank 0 of this job still answers, but a step does not end.
  const HttpReply begun = gateway.post(kPath, {{"tokens", 5}, {"stop_at", 2}});
  EXPECT_EQ(json::parse(begun.events().back()).at("error").at("type"), "server_error");
  const std::string log = gateway.end();
  EXPECT_NE(log.find("rank 0 has not answered for 1 s (--hang-seconds)"), std::string::npos) << log;
  EXPECT_NE(log.find("a step takes longer than 1 s (--hang-seconds)"), std::string::npos) << log;
}

TEST(Gateway, TriesCommandsInOrder) {
  const TemporaryDirectory folder;
  const std::string down = (folder.path() / "down").string();
  const std::string config = (folder.path() / "gateway.json").string();
  std::ofstream(config) << config_text(
      {{"sh", "-c", "test -e " + down + " || exec " TP_FAKE_JOB}, {"sh", "-c", "exec " TP_FAKE_JOB}});
  GatewayProgram gateway({}, {"--config", config});
  ASSERT_TRUE(gateway.is_ready());
  std::ofstream(down) << "";
  send_signal(gateway.member("fake_job"), SIGKILL);
  ASSERT_TRUE(comes_true([&] { return gateway.get("/health").status != 200; }));
  ASSERT_TRUE(gateway.is_ready());
  const std::string log = gateway.end();
  EXPECT_NE(log.find("(command 1 of 2)"), std::string::npos) << log;
  EXPECT_NE(log.find("(command 2 of 2)"), std::string::npos) << log;
}

// The second command's hosts lack the first job's instruction set.
TEST(Gateway, MarksAnswersThatContinueOnAnotherInstructionSet) {
  const TemporaryDirectory folder;
  const std::string down = (folder.path() / "down").string();
  const std::string config = (folder.path() / "gateway.json").string();
  std::ofstream(config) << config_text(
      {{"sh", "-c", "test -e " + down + " && exit 1; TP_ISA=avx2 exec " TP_FAKE_JOB},
       {"sh", "-c",
        "test \"$TP_ISA\" = avx2 && { echo 'tp-infer: TP_ISA must be portable; found \"avx2\"' >&2; exit 1; "
        "}; "
        "exec " TP_FAKE_JOB}});
  GatewayProgram gateway({}, {"--config", config});
  HttpClient client(gateway.port());
  client.send(request_text("POST", kPath, json{{"tokens", 40}, {"delay_ms", 20}}.dump()));
  ASSERT_NE(client.read_until("\"token\":5}"), "");
  std::ofstream(down) << "";
  send_signal(gateway.member("fake_job"), SIGKILL);
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.events(), expected_events(40));
  EXPECT_NE(reply.body.find(": this answer may differ from an undisturbed run's\n\n"), std::string::npos);
  // An answer from one job only has no such note.
  EXPECT_EQ(gateway.post(kPath, {{"tokens", 3}}).body.find("may differ"), std::string::npos);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("its instruction set differs, so texts may differ"), std::string::npos) << log;
}

TEST(Gateway, ReportsWhyNoJobBecomesReady) {
  GatewayProgram gateway({"sh", "-c", "echo 'tp-infer: there is no model' >&2; exit 1"});
  const HttpReply waiting = gateway.post(kPath, {{"tokens", 5}});
  EXPECT_EQ(waiting.status, 503);
  const std::string message = waiting.json().at("error").at("message");
  EXPECT_EQ(message, "no job is ready: failing; the last one ended: tp-infer: there is no model");
  EXPECT_GE(std::stoi(waiting.headers.at("retry-after")), 1);
  const HttpReply health = gateway.get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.json().at("error").at("code"), "failing");
  EXPECT_EQ(gateway.metric("ready"), 0.0);
  gateway.end();
}

TEST(Gateway, WritesItsOwnErrorsInTheFormatOfTheRequestsApi) {
  const Headers version = {{"anthropic-version", "2023-06-01"}, {"Origin", "http://localhost:3000"}};
  const struct {
    const char* path;
    Headers headers;
    bool is_anthropic;
  } kRequests[] = {{"/v1/messages", {}, true},
                   {"/messages", {}, true},
                   {"/v1/messages/count_tokens", {}, true},
                   {"/v1/models", version, true},
                   {"/v1/chat/completions", {}, false},
                   {"/v1/responses", {}, false},
                   {"/v1/messages_of_others", {}, false}};
  GatewayProgram gateway({"sh", "-c", "echo 'tp-infer: there is no model' >&2; exit 1"});
  for (const int status : {503, 503, 413}) {  // during the first start, later, and before the body is read
    for (const auto& [path, headers, is_anthropic] : kRequests) {
      HttpClient client(gateway.port());
      Headers sent = headers;
      if (status == 413) sent.emplace_back("Content-Length", "1000000000000");
      client.send(request_text(status == 413 ? "PUT" : "POST", path, status == 413 ? "" : "{}", sent));
      const HttpReply reply = client.read();
      EXPECT_EQ(reply.status, status) << path;
      const json body = reply.json();
      EXPECT_EQ(body.contains("type"), is_anthropic) << path << body;
      EXPECT_EQ(body.at("error").contains("param"), !is_anthropic) << path << body;
      EXPECT_EQ(reply.headers.contains("access-control-allow-origin"), !headers.empty()) << path;
    }
  }
  gateway.end();
}

TEST(Gateway, EndsABegunStreamWithAnErrorInTheFormatOfItsApi) {
  GatewayProgram gateway(fake_command());
  for (const auto& [path, error] : {std::pair("/v1/messages", "event: error\ndata: {\"type\":\"error\""),
                                    {"/v1/responses", "\"type\":\"error\""},
                                    {"/v1/completions", "data: {\"error\":{"}}) {
    const HttpReply reply = gateway.post(path, {{"tokens", 5}, {"die_at", 2}});
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.body.find(error), std::string::npos) << path << reply.body;
  }
  gateway.end();
}

TEST(Gateway, EndsWithTheStatusOfAUsageErrorIfNoServerCanStart) {
  GatewayProgram gateway({"sh", "-c", "echo 'tp-infer serve: there is no option --modle' >&2; exit 2"});
  const Finished ended = gateway.process().finish();
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("tp-infer gateway: no command can start a server: tp-infer serve: there is no "
                           "option --modle; correct the command"),
            std::string::npos)
      << ended.err;
}

TEST(Gateway, RefusesWrongUseWithTheStatusOfAUsageError) {
  for (const auto& [arguments, message] :
       {std::pair(Arguments{"gateway"}, "found neither"),
        {{"gateway", "--config", "x", "--", "tp-infer", "serve"}, "found both"},
        {{"gateway", "--", "tp-infer", "serve", "--port", "8080"}, "leave --port out after serve"}}) {
    Process process(command_line(kNoMpirun, arguments));
    const Finished ended = process.finish();
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_NE(ended.err.find(message), std::string::npos) << ended.err;
  }
  Process process(command_line(2, {"gateway", "--", "tp-infer", "serve"}));
  const Finished ended = process.finish();
  EXPECT_EQ(ended.status, 2) << ended.err;
  const std::size_t first = ended.err.find("write mpirun after --");
  EXPECT_NE(first, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("write mpirun after --", first + 1), std::string::npos) << ended.err;
}

// Without these headers, a browser hides the response from a page.
TEST(Gateway, ReportsToAllowedOriginsWhyNoJobIsReady) {
  const TemporaryDirectory folder;
  const std::string down = (folder.path() / "down").string();
  GatewayProgram gateway({"sh", "-c", "test -e " + down + " && exit 1; exec " TP_FAKE_JOB});
  ASSERT_TRUE(gateway.is_ready());
  std::ofstream(down) << "";
  const Headers page = {{"Origin", "https://chat.example.com"}};
  const HttpReply waiting = post(gateway.port(), kPath, {{"tokens", 5}, {"die_at", 0}}, page);
  EXPECT_EQ(waiting.status, 503);
  EXPECT_EQ(waiting.headers.at("access-control-allow-origin"), "https://chat.example.com");
  const HttpReply refused = post(gateway.port(), kPath, {{"tokens", 5}}, page);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("access-control-allow-origin"), "https://chat.example.com");
  HttpClient browser(gateway.port());
  browser.send(request_text("OPTIONS", kPath, "", page));
  const HttpReply asked = browser.read();
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.headers.at("access-control-allow-origin"), "https://chat.example.com");
  const HttpReply foreign =
      post(gateway.port(), kPath, {{"tokens", 5}}, {{"Origin", "https://evil.example.com"}});
  EXPECT_FALSE(foreign.headers.contains("access-control-allow-origin"));
  gateway.end();
}

TEST(Gateway, ForgetsAClientThatLeavesWhileNoJobIsReady) {
  GatewayProgram gateway({"sleep", "1000"});
  HttpClient client(gateway.port());
  client.send(request_text("POST", kPath, json{{"tokens", 5}}.dump()));
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_requests") == 1; }));
  EXPECT_EQ(gateway.get("/health").json().at("error").at("code"), "starting");
  client.close();
  EXPECT_TRUE(comes_true([&] { return gateway.metric("kept_requests") == 0; }));
  EXPECT_EQ(gateway.metric("kept_bytes"), 0.0);
  gateway.end();
}

TEST(Gateway, LimitsTheBytesOfKeptRequests) {
  GatewayProgram gateway({"sleep", "1000"}, {"--keep-bytes", "1000"});
  HttpClient first(gateway.port());
  first.send(request_text("POST", kPath, std::string(900, ' ')));
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_requests") == 1; }));
  const HttpReply refused = post_text(gateway.port(), kPath, std::string(200, ' '));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("--keep-bytes"), std::string::npos) << refused.body;
  first.close();
  gateway.end();
}

TEST(Gateway, LoadsAChangedConfiguration) {
  const TemporaryDirectory folder;
  const std::string config = (folder.path() / "gateway.json").string();
  const auto write = [&](const std::string& text) { std::ofstream(config) << text; };
  write(config_text({{"env", "NAME=old", TP_FAKE_JOB}}));
  GatewayProgram gateway({}, {"--config", config});
  ASSERT_TRUE(gateway.is_ready());
  const pid_t old = gateway.member("fake_job");

  write("{");
  send_signal(gateway.process().pid(), SIGHUP);
  ASSERT_TRUE(gateway.process().wait_for_message("keeps its configuration"));
  EXPECT_EQ(gateway.member("fake_job"), old);

  auto running = std::async(std::launch::async, [&] {
    return gateway.post(kPath, {{"tokens", 20}, {"delay_ms", 50}});
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 50; }));
  write(config_text({{"env", "NAME=new", TP_FAKE_JOB}}));
  send_signal(gateway.process().pid(), SIGHUP);
  ASSERT_TRUE(comes_true([&] { return gateway.get("/health").status != 200; }));
  const HttpReply waiting = gateway.post(kPath, {{"tokens", 3}});
  EXPECT_EQ(waiting.events(), expected_events(3));
  EXPECT_EQ(running.get().events(), expected_events(20));
  EXPECT_NE(gateway.member("fake_job"), old);
  EXPECT_EQ(gateway.metric("restarts_total"), 0.0) << "nothing was lost";
  gateway.end();
}

TEST(Gateway, FinishesAnswersBeforeItEnds) {
  GatewayProgram gateway(fake_command());
  auto running = std::async(std::launch::async, [&] {
    return gateway.post(kPath, {{"tokens", 20}, {"delay_ms", 50}});
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 50; }));
  send_signal(gateway.process().pid(), SIGTERM);
  ASSERT_TRUE(comes_true([&] { return gateway.get("/health").status == 503; }));
  EXPECT_EQ(gateway.post(kPath, {{"tokens", 3}}).status, 503);
  EXPECT_EQ(running.get().events(), expected_events(20));
  EXPECT_EQ(gateway.process().finish().status, 0);
}

TEST(Gateway, DropsAClientThatDoesNotRead) {
  GatewayProgram gateway(fake_command());
  HttpClient slow(gateway.port(), 4096);
  slow.send(request_text("POST", kPath, json{{"tokens", 2000000}}.dump()));
  EXPECT_TRUE(comes_true([&] { return gateway.metric("kept_requests") == 1; }));
  EXPECT_TRUE(comes_true([&] { return gateway.metric("kept_requests") == 0; }, 120));
  EXPECT_EQ(gateway.post(kPath, {{"tokens", 5}}).events(), expected_events(5));
  gateway.end();
}

TEST(Gateway, RefusesAnnouncementsWithoutItsSecret) {
  GatewayProgram gateway(fake_command());
  ASSERT_TRUE(gateway.is_ready());
  const json announcement = {
      {"host", "127.0.0.1"}, {"port", 1},    {"process", 1}, {"machine", "x"},
      {"isa", "x"},          {"model", "x"}, {"ranks", 1},   {"origins", json::array()}};
  EXPECT_EQ(gateway.post("/tp-infer/announce/0123", announcement).status, 403);
  EXPECT_EQ(gateway.post("/tp-infer/announce/0123", 1).status, 400);
  const json too_long = std::string(std::size_t{256} << 10, 'x');
  EXPECT_EQ(gateway.post("/tp-infer/announce/0123", too_long).status, 413);
  EXPECT_EQ(gateway.post("/health", std::string(5000, 'x')).status, 413) << "anyone may ask";
  EXPECT_EQ(gateway.post(kPath, {{"tokens", 5}}).events(), expected_events(5));
  gateway.end();
}

}  // namespace
}  // namespace tp::test
