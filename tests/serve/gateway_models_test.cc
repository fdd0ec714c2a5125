// A gateway in front of several models. Each job is fake_job.cc.
#include "parallel/machine/file_text.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

json entry(const std::string& name, const json& members = json::object(), const std::string& script = "") {
  json model = {{"name", name}, {"commands", {fake_command_of(name, "", script)}}};
  model.update(members);
  return model;
}

// A temporary folder with a configuration.
class Config {
 public:
  explicit Config(const json& models) { write(models); }

  void write(const json& models) const { std::ofstream(file_) << json{{"models", models}}; }
  Arguments options(const Arguments& others = {}) const {
    Arguments all = {"--config", file_};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

 private:
  TemporaryDirectory folder_;
  std::string file_ = (folder_.path() / "gateway.json").string();
};

// Returns the names of the jobs that generated an answer's tokens, in order, without consecutive repetitions.
std::string names_in(const HttpReply& reply) {
  std::string names;
  std::string last;
  for (const json& chunk : reply.chunks()) {
    const std::string name = chunk.value("name", "");
    if (name != last) names += name;
    last = name;
  }
  return names;
}

json asking(const std::string& model, const json& more = json::object()) {
  json body = {{"model", model}, {"tokens", 3}, {"name", true}, {"stream", true}};
  body.update(more);
  return body;
}

TEST(GatewayModels, AreChosenByTheRequest) {
  const Config config({entry("a", {{"aliases", {"gpt-4o", "ä/b c"}}, {"start", "always"}}), entry("b")});
  GatewayProgram gateway({}, config.options());
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  for (const auto& [asked, answers] :
       {std::pair("a", "a"), {"b", "b"}, {"gpt-4o", "a"}, {"ä/b c", "a"}, {"", "a"}}) {
    const HttpReply reply = gateway.post(kPath, asking(asked));
    EXPECT_EQ(names_in(reply), answers) << asked << reply.body;
    EXPECT_EQ(reply.events().size(), 4U);
  }
  EXPECT_EQ(names_in(gateway.post(kPath, {{"tokens", 1}, {"name", true}})), "a") << "without a name";
  EXPECT_EQ(gateway.get("/v1/status?model=b").body, "0 bytes");
  EXPECT_EQ(gateway.get("/v1/models/%C3%A4%2Fb%20c").json().at("id"), "a");
  EXPECT_NE(gateway.get("/metrics").body.find("tpinfer:gateway_ready{model=\"b\"} 1\n"), std::string::npos);
  EXPECT_EQ(gateway.get("/").headers.at("content-type").substr(0, 9), "text/html");
  gateway.end();
}

TEST(GatewayModels, HaveOnlyTheNamesThatTheyHave) {
  const Config config({entry("a", {{"aliases", {"c"}}}), entry("b")});
  GatewayProgram gateway({}, config.options());
  const std::string text = "there is no model `x` here; this server has a, b";
  const HttpReply openai = gateway.post(kPath, asking("x"));
  EXPECT_EQ(openai.status, 404);
  EXPECT_EQ(openai.json().at("error").at("message"), text);
  EXPECT_EQ(openai.json().at("error").at("code"), "model_not_found");
  EXPECT_EQ(openai.json().at("error").at("param"), "model");
  const HttpReply anthropic = gateway.post("/v1/messages", asking("x"));
  EXPECT_EQ(anthropic.status, 404);
  EXPECT_EQ(anthropic.json().at("type"), "error");
  EXPECT_EQ(anthropic.json().at("error").at("type"), "not_found_error");
  EXPECT_EQ(anthropic.json().at("error").at("message"), text);
  EXPECT_EQ(gateway.get("/v1/models/x").status, 404);
  EXPECT_EQ(gateway.get("/v1/status?model=x").status, 404);
  EXPECT_EQ(gateway.fake_job("a"), -1) << "nothing was started";
  EXPECT_EQ(gateway.fake_job("b"), -1);
  gateway.end();
}

TEST(GatewayModels, AreListedWithTheirState) {
  const Config config(
      {entry("a", {{"start", "always"}, {"aliases", {"c"}}}), entry("b", json::object(), "sleep 1")});
  GatewayProgram gateway({}, config.options());
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  const json list = gateway.get("/v1/models").json();
  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(list.at("first_id"), "a");
  EXPECT_EQ(list.at("last_id"), "b");
  ASSERT_EQ(list.at("data").size(), 2U);
  EXPECT_EQ(list.at("data")[0].at("aliases"), json({"c"}));
  EXPECT_EQ(list.at("data")[0].at("state"), "ready");
  EXPECT_EQ(list.at("data")[0].at("status").at("value"), "loaded");
  EXPECT_EQ(list.at("data")[1].at("id"), "b");
  EXPECT_EQ(list.at("data")[1].at("object"), "model");
  EXPECT_EQ(list.at("data")[1].at("state"), "stopped");
  EXPECT_EQ(list.at("data")[1].at("status").at("value"), "unloaded");
  auto answer = std::async(std::launch::async, [&] { return gateway.post(kPath, asking("b")); });
  EXPECT_TRUE(gateway.comes_to("b", "starting"));
  EXPECT_EQ(gateway.get("/models").json().at("data")[1].at("status").at("value"), "loading");
  EXPECT_EQ(names_in(answer.get()), "b");
  EXPECT_EQ(gateway.state_of("b"), "ready");
  gateway.end();
}

TEST(GatewayModels, StartForTheFirstRequestThatNeedsThem) {
  const Config config(json::array({entry("a", json::object(), "sleep 3")}));
  GatewayProgram gateway({}, config.options({"--ping-seconds", "1"}));
  EXPECT_EQ(gateway.get("/health").status, 200);
  const HttpReply read = gateway.get("/v1/status");
  EXPECT_EQ(read.status, 503) << "reading starts nothing";
  EXPECT_EQ(read.json().at("error").at("code"), "stopped");
  EXPECT_EQ(gateway.get("/metrics?model=a").status, 503);
  const HttpReply refused = gateway.post("/login", "no object");
  EXPECT_EQ(refused.status, 400) << "such a body starts nothing";
  EXPECT_NE(refused.body.find("expected a JSON object"), std::string::npos) << refused.body;
  EXPECT_EQ(gateway.state_of("a"), "stopped");
  HttpClient client(gateway.port());
  client.send(request_text("POST", kPath, asking("a").dump()));
  const std::string begin = client.read_until(": the answer waits for its model\n\n");
  EXPECT_NE(begin.find("HTTP/1.1 200 OK"), std::string::npos) << begin;
  EXPECT_NE(begin.find("text/event-stream"), std::string::npos) << begin;
  EXPECT_EQ(begin.find("data:"), std::string::npos) << "a comment comes before the job is ready";
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.events().size(), 4U) << reply.body;
  EXPECT_TRUE(reply.is_complete);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("tp-infer gateway: a: starts, because a request waits for it"), std::string::npos)
      << log;
  EXPECT_NE(log.find("tp-infer gateway: a: a request waited 3."), std::string::npos) << log;
}

// When the server refuses the request, the client already has the stream's header.
TEST(GatewayModels, RefuseWithinAStreamThatHasWaited) {
  const Config config(json::array({entry("a", json::object(), "sleep 2")}));
  for (const auto& [path, error] : {std::pair(kPath, "data: {\"error\":{\"message\":\"no, thank you\""),
                                    {"/v1/messages", "event: error\ndata: {\"type\":\"error\""}}) {
    GatewayProgram gateway({}, config.options({"--ping-seconds", "1"}));
    const HttpReply reply = gateway.post(path, asking("a", {{"refuse", 400}}));
    EXPECT_EQ(reply.status, 200);
    EXPECT_TRUE(reply.is_complete);
    EXPECT_NE(reply.body.find(error), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find("no, thank you"), std::string::npos) << reply.body;
    const HttpReply whole = gateway.post(path, asking("a", {{"refuse", 400}, {"stream", false}}));
    EXPECT_EQ(whole.status, 400) << "a job is ready";
    EXPECT_EQ(gateway.metric("request_refused_total{model=\"a\",status=\"400\"}"), -1.0)
        << "the server counts its own refusals";
    gateway.end();
  }
}

TEST(GatewayModels, HaveABoundedQueueOfClientsThatStay) {
  const Config config({entry("a", json::object(), "sleep 1000"), entry("b")});
  GatewayProgram gateway({}, config.options({"--max-queue", "2"}));
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<HttpClient>(gateway.port()));
    clients.back()->send(request_text("POST", kPath, asking("a").dump()));
  }
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_requests{model=\"a\"}") == 2; }));
  const HttpReply refused = gateway.post(kPath, asking("a"));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.json().at("error").at("type"), "rate_limit_error");
  EXPECT_NE(refused.body.find("--max-queue"), std::string::npos) << refused.body;
  EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
  EXPECT_EQ(gateway.post("/v1/messages", asking("a")).json().at("type"), "error");
  EXPECT_EQ(gateway.metric("waiting_requests{model=\"a\"}"), 2.0);
  EXPECT_EQ(gateway.metric("request_refused_total{model=\"a\",status=\"429\"}"), 2.0);
  EXPECT_EQ(names_in(gateway.post(kPath, asking("b"))), "b") << "another model's queue";
  clients.pop_back();
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_requests{model=\"a\"}") == 1; }));
  HttpClient next(gateway.port());
  next.send(request_text("POST", kPath, asking("a").dump()));
  EXPECT_TRUE(comes_true([&] { return gateway.metric("kept_requests{model=\"a\"}") == 2; }));
  gateway.end();
}

TEST(GatewayModels, StopWhenTheyAreIdle) {
  const Config config({entry("a", {{"idle_stop", 1}}), entry("b", {{"start", "always"}})});
  GatewayProgram gateway({}, config.options());
  EXPECT_EQ(names_in(gateway.post(kPath, asking("a", {{"tokens", 30}, {"delay_ms", 60}}))), "a")
      << "an answer is no idle time";
  const auto ended = std::chrono::steady_clock::now();
  // A page that looks is no use of the model. The job may stop between the two requests.
  while (gateway.state_of("a") == "ready") {
    const int looked = gateway.get("/v1/status?model=a").status;
    EXPECT_TRUE(looked == 200 || gateway.state_of("a") != "ready") << looked;
    std::this_thread::sleep_for(50ms);
    ASSERT_LT(std::chrono::steady_clock::now() - ended, 20s);
  }
  EXPECT_GT(std::chrono::steady_clock::now() - ended, 800ms);
  EXPECT_TRUE(gateway.comes_to("a", "stopped"));
  EXPECT_EQ(gateway.fake_job("a"), -1);
  EXPECT_EQ(gateway.metric("lost_seconds_total{model=\"a\"}"), 0.0) << "nobody waited for it";
  EXPECT_EQ(gateway.state_of("b"), "ready");
  EXPECT_EQ(names_in(gateway.post(kPath, asking("a"))), "a") << "it starts again";
  EXPECT_EQ(gateway.metric("restarts_total{model=\"a\"}"), 0.0);
  EXPECT_EQ(gateway.metric("starts_total{model=\"a\"}"), 2.0);
  gateway.end();
}

TEST(GatewayModels, FinishTheAnswersOfTheirOwnLostJobs) {
  const Config config({entry("a"), entry("b")});
  GatewayProgram gateway({}, config.options());
  std::vector<std::future<HttpReply>> answers;
  for (const char* model : {"a", "b"}) {
    answers.push_back(std::async(std::launch::async, [&gateway, model] {
      return gateway.post(kPath, asking(model, {{"tokens", 60}, {"delay_ms", 20}}));
    }));
  }
  for (const char* model : {"a", "b"}) {
    ASSERT_TRUE(
        comes_true([&] { return gateway.metric(fmt::format("kept_bytes{{model=\"{}\"}}", model)) > 200; }));
    send_signal(gateway.fake_job(model), SIGKILL);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const HttpReply reply = answers[i].get();
    EXPECT_EQ(reply.events().size(), 61U) << reply.body;
    EXPECT_EQ(names_in(reply), i == 0 ? "a" : "b");
  }
  for (const char* model : {"a", "b"})
    EXPECT_EQ(gateway.metric(fmt::format("resumed_answers_total{{model=\"{}\"}}", model)), 1.0);
  gateway.end();
}

const json kUsageError = {{"sh", "-c", "echo 'tp-infer serve: there is no option --modle' >&2; exit 2"}};

TEST(GatewayModels, EndTheGatewayIfOneThatAlwaysRunsCanNeverStart) {
  const Config config(
      {entry("a", {{"start", "always"}}), {{"name", "b"}, {"start", "always"}, {"commands", kUsageError}}});
  GatewayProgram gateway({}, config.options());
  const Finished ended = gateway.process().finish();
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("no command can start a server: `b`: tp-infer serve: there is no option --modle; "
                           "correct the command"),
            std::string::npos)
      << ended.err;
}

TEST(GatewayModels, ServeWhileOneOnDemandCanNeverStart) {
  const Config config({entry("a"), {{"name", "b"}, {"commands", kUsageError}}});
  GatewayProgram gateway({}, config.options());
  auto running = std::async(std::launch::async, [&] {
    return gateway.post(kPath, asking("a", {{"tokens", 40}, {"delay_ms", 50}}));
  });
  for (int i = 0; i < 2; ++i) {
    const HttpReply refused = gateway.post("/v1/messages", asking("b"));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.json().at("error").at("message"),
              "no job of the model `b` is ready: failing; the last one ended: tp-infer serve: there is no "
              "option --modle");
  }
  EXPECT_EQ(running.get().events().size(), 41U);
  EXPECT_EQ(gateway.metric("starts_total{model=\"b\"}"), 1.0) << "another start would fail, too";
  config.write({entry("a"), entry("b")});
  send_signal(gateway.process().pid(), SIGHUP);
  EXPECT_TRUE(gateway.comes_to("b", "stopped"));
  EXPECT_EQ(names_in(gateway.post(kPath, asking("b"))), "b");
  gateway.end();
}

// The command fails at first. Waiting requests get an error, and the next request starts it again.
TEST(GatewayModels, TryAgainForTheNextRequest) {
  const Config config(json::array());
  const std::string down = config.path("down");
  config.write(json::array(
      {entry("a", json::object(), "test -e " + down + " && echo 'tp-infer: no network' >&2 && exit 1")}));
  std::ofstream(down) << "";
  GatewayProgram gateway({}, config.options());
  const HttpReply refused = gateway.post(kPath, asking("a"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("no network"), std::string::npos) << refused.body;
  EXPECT_TRUE(gateway.comes_to("a", "stopped"));
  std::filesystem::remove(down);
  EXPECT_EQ(names_in(gateway.post(kPath, asking("a"))), "a");
  gateway.end();
}

TEST(GatewayModels, FollowTheConfiguration) {
  const Config config({entry("a", {{"start", "always"}}), entry("b")});
  GatewayProgram gateway({}, config.options());
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  const pid_t job = gateway.fake_job("a");
  const auto reload = [&](const std::string& message) {
    send_signal(gateway.process().pid(), SIGHUP);
    return gateway.process().wait_for_message(message);
  };
  EXPECT_TRUE(reload("the configuration and the programs have not changed"));
  auto running = std::async(std::launch::async, [&] {
    return gateway.post(kPath, asking("b", {{"tokens", 30}, {"delay_ms", 50}}));
  });
  ASSERT_TRUE(gateway.comes_to("b", "ready"));
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes{model=\"b\"}") > 100; }));
  config.write({entry("a", {{"start", "always"}}), entry("c", {{"aliases", {"d"}}})});
  EXPECT_TRUE(reload("b: is not part of the configuration any more, and ends"));
  EXPECT_TRUE(gateway.process().wait_for_message("c: is new"));
  EXPECT_EQ(gateway.post(kPath, asking("b")).status, 404);
  EXPECT_EQ(names_in(gateway.post(kPath, asking("d"))), "c");
  EXPECT_EQ(running.get().events().size(), 31U) << "a removed model finishes its answers";
  EXPECT_TRUE(comes_true([&] { return gateway.fake_job("b") == -1; }));
  EXPECT_EQ(gateway.fake_job("a"), job) << "an unchanged model goes on";
  config.write(json::array());
  EXPECT_TRUE(reload("keeps its configuration"));
  std::filesystem::remove(config.path("gateway.json"));
  std::filesystem::create_directory(config.path("gateway.json"));
  EXPECT_TRUE(reload("expected a file, found a folder"));
  EXPECT_EQ(names_in(gateway.post(kPath, asking("c"))), "c");
  gateway.end();
}

// The test does the same as `systemctl reload` after an upgrade.
TEST(GatewayModels, RestartWithANewProgram) {
  const Config config(json::array());
  const std::string program = config.path("program");
  const auto install = [&](const std::string& name) {
    std::filesystem::copy_file(TP_FAKE_JOB, program + ".new");
    std::filesystem::rename(program + ".new", program);
    config.write(json::array({{{"name", "a"}, {"start", "always"}, {"commands", {{program}}}}}));
    return name;
  };
  install("old");
  GatewayProgram gateway({}, config.options());
  ASSERT_TRUE(gateway.comes_to("a", "ready"));
  auto running = std::async(std::launch::async, [&] {
    return gateway.post(kPath, asking("a", {{"tokens", 20}, {"delay_ms", 50}}));
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes{model=\"a\"}") > 100; }));
  install("new");
  send_signal(gateway.process().pid(), SIGHUP);
  ASSERT_TRUE(gateway.process().wait_for_message("a: has other commands or another program"));
  EXPECT_EQ(running.get().events().size(), 21U);
  EXPECT_EQ(gateway.post(kPath, asking("a")).events().size(), 4U);
  EXPECT_EQ(gateway.metric("starts_total{model=\"a\"}"), 2.0);
  EXPECT_EQ(gateway.metric("restarts_total{model=\"a\"}"), 0.0) << "nothing was lost";
  gateway.end();
}

// The configuration is the guide's example with replaced commands: tp-infer gateway --config gateway.json
TEST(GatewayModels, MatchTheGuidesExample) {
  const std::string guide = file_text(TP_SOURCE_FOLDER "/runtime/gateway/README.md");
  const std::size_t begin = guide.find("{\"models\": [\n");
  ASSERT_NE(begin, std::string::npos);
  json models = json::parse(guide.substr(begin, guide.find("\nEND\n", begin) - begin)).at("models");
  ASSERT_EQ(models.size(), 3U);
  const Config config(json::array());
  for (json& model : models) {
    EXPECT_EQ(model.at("commands")[0][0], "mpirun");
    const std::string group = model.contains("group") ? config.path("group") : "";
    model["commands"] = {fake_command_of(model.at("name"), group)};
  }
  config.write(models);
  GatewayProgram gateway({}, config.options());
  ASSERT_TRUE(gateway.comes_to("small", "ready"));
  for (const auto& [asked, answers] :
       {std::pair("gpt-4o-mini", "small"), {"coder", "coder"}, {"large", "large"}})
    EXPECT_EQ(names_in(gateway.post(kPath, asking(asked))), answers);
  EXPECT_EQ(gateway.state_of("coder"), "stopped") << "large is in the same group";
  gateway.end();
}

}  // namespace
}  // namespace tp::test
