// Keys with names, at the gateway and at the server behind it, and how a reload changes them.
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

const json kBody = {{"prompt", "Once upon a time"}, {"max_tokens", 3}, {"temperature", 0}};

Headers key(const std::string& text, const Headers& others = {}) {
  Headers headers = {{"Authorization", "Bearer " + text}};
  headers.insert(headers.end(), others.begin(), others.end());
  return headers;
}

// A file of keys and a configuration with two models. `serve`: options of the server.
class Lab {
 public:
  explicit Lab(const Arguments& serve = {}) {
    write_keys("anna:anna-key\nben:ben-key\n");
    const std::vector<std::string> command = serve_command(kNoMpirun, serve);
    std::ofstream(config_) << json{
        {"models",
         {{{"name", "a"}, {"commands", {command}}}, {{"name", "b"}, {"commands", {fake_command_of("b")}}}}}};
  }

  void write_keys(const std::string& text) const { std::ofstream(keys_) << text; }
  const std::string& keys() const { return keys_; }
  Arguments options(const Arguments& others = {}) const {
    Arguments all = {"--config", config_, "--api-key-file", keys_};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }

 private:
  TemporaryDirectory folder_;
  std::string keys_ = (folder_.path() / "keys").string();
  std::string config_ = (folder_.path() / "gateway.json").string();
};

int status(const GatewayProgram& gateway, const std::string& text) {
  return post(gateway.port(), kPath, kBody, key(text)).status;
}

TEST(GatewayKeys, ArePeople) {
  const Lab lab;
  GatewayProgram gateway({}, lab.options());
  const HttpReply refused = gateway.post(kPath, kBody);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(gateway.post("/v1/messages", kBody).json().at("type"), "error");
  EXPECT_EQ(gateway.get("/v1/models").status, 401);
  EXPECT_EQ(gateway.get("/metrics").status, 401) << "it names people";
  EXPECT_EQ(gateway.get("/health").status, 200);
  EXPECT_EQ(gateway.get("/").status, 200) << "the page asks for the key";
  EXPECT_EQ(get(gateway.port(), "/v1/models", key("anna-key")).json().at("data")[0].at("state"), "stopped")
      << "a request without a key starts nothing";
  EXPECT_EQ(status(gateway, "anna-key"), 200);
  EXPECT_EQ(status(gateway, "anna-key"), 200);
  EXPECT_EQ(status(gateway, "ben-key"), 200);
  const std::string metrics = get(gateway.port(), "/metrics", key("ben-key")).body;
  EXPECT_NE(metrics.find("tpinfer:gateway_requests_total{model=\"a\",user=\"anna\"} 2\n"), std::string::npos)
      << metrics;
  EXPECT_NE(metrics.find("tpinfer:gateway_requests_total{model=\"a\",user=\"ben\"} 1\n"), std::string::npos);
  const std::string served = get(gateway.port(), "/metrics?model=a", key("ben-key")).body;
  EXPECT_NE(served.find("tpinfer:user_requests_total{model_name=\"a\",user=\"anna\"} 2\n"), std::string::npos)
      << served;
  EXPECT_NE(served.find("tpinfer:user_generation_tokens_total{model_name=\"a\",user=\"anna\"} 6\n"),
            std::string::npos);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("a request of anna waited "), std::string::npos) << log;
  EXPECT_NE(log.find("POST /v1/completions 200 user=ben"), std::string::npos) << log;
  for (const char* text : {"anna-key", "ben-key"})
    EXPECT_EQ(log.find(text), std::string::npos) << "the log has names, and no keys";
}

TEST(GatewayKeys, CountAfterAReload) {
  const Lab lab;
  GatewayProgram gateway({}, lab.options());
  ASSERT_EQ(status(gateway, "anna-key"), 200);
  const auto reload = [&](const std::string& message) {
    send_signal(gateway.process().pid(), SIGHUP);
    return gateway.process().wait_for_message(message);
  };
  lab.write_keys("anna:new-key\nben:ben-key\ncarla:carla-key\n");
  EXPECT_TRUE(reload("3 API keys are valid now"));
  EXPECT_TRUE(comes_true([&] { return status(gateway, "carla-key") == 200; }));
  EXPECT_EQ(status(gateway, "new-key"), 200);
  EXPECT_EQ(status(gateway, "anna-key"), 401);
  // A faulty file of keys must neither lock out everybody nor admit everybody.
  lab.write_keys("");
  EXPECT_TRUE(reload("keeps its API keys"));
  EXPECT_EQ(status(gateway, "carla-key"), 200);
  EXPECT_EQ(gateway.post(kPath, kBody).status, 401);
  std::filesystem::remove(lab.keys());
  EXPECT_TRUE(reload("cannot read"));
  EXPECT_EQ(gateway.post(kPath, kBody).status, 401);
  gateway.end();
}

// With a single command, only the server has keys, and the gateway forwards the reload.
TEST(GatewayKeys, TakeEffectAfterTheServersReload) {
  const TemporaryDirectory folder;
  const std::string keys = folder.write("keys", "anna:anna-key").string();
  GatewayProgram gateway(serve_command(2, {"--api-key-file", keys}));
  ASSERT_TRUE(gateway.is_ready());
  ASSERT_EQ(status(gateway, "anna-key"), 200);
  ASSERT_EQ(status(gateway, "ben-key"), 401);
  const auto reload = [&](const std::string& text, const std::string& message) {
    std::ofstream(keys) << text;
    send_signal(gateway.process().pid(), SIGHUP);
    return gateway.process().wait_for_message(message);
  };
  EXPECT_TRUE(reload("anna:anna-key\nben:ben-key", "the server has read its keys again"));
  EXPECT_EQ(status(gateway, "ben-key"), 200);
  EXPECT_TRUE(reload("", "the server keeps its keys"));
  EXPECT_EQ(status(gateway, "ben-key"), 200);
  EXPECT_EQ(gateway.metric("restarts_total"), -1.0) << "the metrics need a key";
  const std::string log = gateway.end();
  EXPECT_NE(log.find("user=ben"), std::string::npos) << log;
  EXPECT_NE(log.find("the configuration and the programs have not changed"), std::string::npos) << log;
}

// A server with its own keys checks them even if it is behind a gateway with keys.
TEST(GatewayKeys, IncludeTheServersOwnKeys) {
  const TemporaryDirectory folder;
  const std::string own = folder.write("own", "chief:ben-key").string();
  const Lab lab({"--api-key-file", own});
  GatewayProgram gateway({}, lab.options());
  EXPECT_EQ(status(gateway, "anna-key"), 401);
  EXPECT_EQ(status(gateway, "ben-key"), 200);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("user=chief"), std::string::npos) << log;
}

TEST(GatewayKeys, IgnoreNamesThatClientsClaim) {
  const Lab lab;
  GatewayProgram gateway({}, lab.options());
  const Headers claims = key("anna-key", {{"tp-user", "chief"}, {"tp-client", "6.6.6.6"}});
  EXPECT_EQ(post(gateway.port(), kPath, kBody, claims).status, 200);
  EXPECT_EQ(post(gateway.port(), kPath, kBody, {{"tp-user", "anna"}}).status, 401);
  const std::string log = gateway.end();
  EXPECT_NE(log.find("127.0.0.1 POST /v1/completions 200 user=anna"), std::string::npos) << log;
}

// Otherwise pages of other origins, or names that are not the gateway's, could start jobs.
TEST(GatewayAccess, IsCheckedBeforeAJobStarts) {
  const Lab lab;
  GatewayProgram gateway(
      {}, lab.options({"--cors-origins", "https://chat.example.com/", "--allowed-hosts", "llm.example.com"}));
  const auto status_with = [&](const Headers& headers) {
    return post(gateway.port(), kPath, kBody, key("anna-key", headers)).status;
  };
  EXPECT_EQ(status_with({{"Origin", "https://evil.example.com"}}), 403);
  HttpClient rebound(gateway.port());
  rebound.send(
      "POST /v1/completions HTTP/1.1\r\nHost: evil.example.com\r\nAuthorization: Bearer anna-key\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(rebound.read().status, 403);
  EXPECT_EQ(get(gateway.port(), "/v1/models", key("anna-key")).json().at("data")[0].at("state"), "stopped");
  const HttpReply page =
      post(gateway.port(), kPath, kBody, key("anna-key", {{"Origin", "https://chat.example.com"}}));
  EXPECT_EQ(page.status, 200) << page.body;
  EXPECT_EQ(page.headers.at("access-control-allow-origin"), "https://chat.example.com");
  HttpClient browser(gateway.port());
  browser.send(request_text("OPTIONS", kPath, "", {{"Origin", "https://chat.example.com"}}));
  const HttpReply asked = browser.read();
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.headers.at("access-control-allow-origin"), "https://chat.example.com");
  gateway.end();
}

// The server would refuse this host name and this page's origin.
TEST(GatewayAccess, IsNotCheckedAgainByTheServer) {
  const TemporaryDirectory folder;
  const json models = json::array({{{"name", "a"}, {"commands", {serve_command(kNoMpirun)}}}});
  const std::string config = folder.write("gateway.json", json{{"models", models}}.dump()).string();
  GatewayProgram gateway({}, {"--config", config, "--cors-origins", "https://chat.example.com",
                              "--allowed-hosts", "llm.example.com"});
  HttpClient client(gateway.port());
  const std::string body = kBody.dump();
  client.send(
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: llm.example.com\r\nOrigin: "
                  "https://chat.example.com\r\nContent-Type: application/json\r\nContent-Length: "
                  "{}\r\n\r\n{}",
                  body.size(), body));
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("access-control-allow-origin"), "https://chat.example.com");
  const std::string log = gateway.end();
  EXPECT_NE(log.find("POST /v1/completions 200"), std::string::npos) << log;
  EXPECT_EQ(log.find("user="), std::string::npos) << "there are no keys";
}

TEST(GatewayAccess, LogsTheClientThatATrustedProxyNames) {
  const Lab lab;
  for (const bool is_trusted : {false, true}) {
    GatewayProgram gateway(
        {}, lab.options(is_trusted ? Arguments{"--trusted-proxies", "127.0.0.1"} : Arguments{}));
    EXPECT_EQ(post(gateway.port(), kPath, kBody, key("anna-key", {{"X-Forwarded-For", "192.0.2.7"}})).status,
              200);
    const std::string log = gateway.end();
    const std::string expected = is_trusted ? "192.0.2.7 POST" : "127.0.0.1 POST";
    EXPECT_NE(log.find(expected), std::string::npos) << log;
  }
}

}  // namespace
}  // namespace tp::test
