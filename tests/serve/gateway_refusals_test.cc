// Requests that the gateway answers with errors of its own: its log and its metrics have them.
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

const Headers kKey = {{"Authorization", "Bearer anna-key"}};
const json kWrongCommand = {{"sh", "-c", "echo 'tp-infer serve: there is no option --modle' >&2; exit 2"}};

// Two models on demand. The command of the second one is wrong.
class TwoModels {
 public:
  Arguments options() const { return {"--config", config_, "--api-key-file", keys_}; }

 private:
  TemporaryDirectory folder_;
  std::string keys_ = folder_.write("keys", "anna:anna-key\n").string();
  std::string config_ =
      folder_
          .write("gateway.json", json{{"models",
                                       {{{"name", "a"}, {"commands", {fake_command_of("a")}}},
                                        {{"name", "b"}, {"commands", kWrongCommand}}}}}
                                     .dump())
          .string();
};

// Returns the lines of the log about requests that the gateway has refused.
std::vector<std::string> refusals_in(const std::string& log, const std::string& mark = " by=gateway ") {
  std::vector<std::string> lines;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(mark) != std::string::npos) lines.push_back(line);
  }
  return lines;
}

std::string counter(const std::string& labels, int count) {
  return fmt::format("tpinfer:gateway_request_refused_total{{{}}} {}\n", labels, count);
}

TEST(GatewayRefusals, AreLoggedAndCounted) {
  const TwoModels models;
  GatewayProgram gateway({}, models.options());
  const std::uint16_t port = gateway.port();
  EXPECT_EQ(post(port, kPath, {{"model", "a"}}).status, 401);
  EXPECT_EQ(post(port, kPath, {{"model", "a"}}, {{"Authorization", "Bearer wrong-key"}}).status, 401);
  EXPECT_EQ(post(port, kPath, {{"model", "invented"}}, kKey).status, 404);
  EXPECT_EQ(get(port, "/v1/models/other", kKey).status, 404);
  EXPECT_EQ(post_text(port, "/v1/completions?model=a", "no object", kKey).status, 400);
  HttpClient large(port);
  large.send(request_text("GET", "/v1/models", "", {kKey[0], {"Content-Length", "5000"}}));
  EXPECT_EQ(large.read().status, 413);
  HttpClient rebound(port);
  rebound.send("GET /v1/models HTTP/1.1\r\nHost: evil.example.com\r\nAuthorization: Bearer anna-key\r\n\r\n");
  EXPECT_EQ(rebound.read().status, 403);
  EXPECT_GE(post(port, "/tp-infer/announce/stolen", json::object()).status, 400);
  EXPECT_EQ(gateway.get("/health").status, 200);
  EXPECT_EQ(gateway.get("/").status, 200);

  const std::string metrics = get(port, "/metrics", kKey).body;
  for (const std::string& line : {counter("status=\"401\"", 2), counter("status=\"404\"", 2),
                                  counter("status=\"413\"", 1), counter("model=\"a\",status=\"400\"", 1)})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << "in\n" << metrics;
  EXPECT_EQ(metrics.find("invented"), std::string::npos) << "clients cannot add series";

  const std::string log = gateway.end();
  EXPECT_EQ(refusals_in(log).size(), 8U) << log;
  for (const char* line :
       {" 127.0.0.1 POST /v1/completions 401 by=gateway total=0.",
        " POST /v1/completions 404 user=anna by=gateway ", " param=model model_not_found\n",
        " GET /v1/models/other 404 user=anna by=gateway ",
        " POST /v1/completions 400 user=anna model=a by=gateway ",
        " GET /v1/models 413 user=anna by=gateway ", " GET /v1/models 403 user=anna by=gateway ",
        " POST /tp-infer/announce/ 40"})
    EXPECT_NE(log.find(line), std::string::npos) << line << "in\n" << log;
  for (const char* text : {"wrong-key", "anna-key", "stolen"}) EXPECT_EQ(log.find(text), std::string::npos);
}

TEST(GatewayRefusals, IncludeRequestsThatHaveWaited) {
  const TwoModels models;
  GatewayProgram gateway({}, models.options());
  const std::uint16_t port = gateway.port();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(post(port, kPath, {{"model", "b"}}, kKey).status, 503);
  // Monitoring asks again and again.
  EXPECT_EQ(get(port, "/metrics?model=b", kKey).status, 503);
  EXPECT_EQ(get(port, "/v1/status?model=b", kKey).status, 503);
  // The server has refused this request, and counts it itself.
  EXPECT_EQ(post(port, kPath, {{"model", "a"}, {"refuse", 400}}, kKey).status, 400);
  const std::string metrics = get(port, "/metrics", kKey).body;
  EXPECT_NE(metrics.find(counter("model=\"b\",status=\"503\"", 2)), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("status=\"400\""), std::string::npos) << metrics;
  const std::vector<std::string> lines = refusals_in(gateway.end());
  ASSERT_EQ(lines.size(), 2U);
  for (const std::string& line : lines) {
    EXPECT_NE(line.find(" 503 user=anna model=b by=gateway "), std::string::npos) << line;
    EXPECT_TRUE(line.ends_with(" failing")) << line;
  }
}

TEST(GatewayRefusals, HaveTheFormatThatTheOptionsChoose) {
  for (const char* option : {"--log-json", "--quiet"}) {
    GatewayProgram gateway({"sleep", "1000"}, {"--keep-bytes", "1000", option});
    EXPECT_EQ(gateway.get("/health").status, 503);
    EXPECT_EQ(post_text(gateway.port(), kPath, std::string(1001, ' ')).status, 503);
    EXPECT_EQ(gateway.metric("request_refused_total{status=\"503\"}"), 1.0);
    const std::string log = gateway.end();
    EXPECT_TRUE(refusals_in(log).empty()) << log;
    const std::vector<std::string> lines = refusals_in(log, "\"by\":\"gateway\"");
    if (option == std::string("--quiet")) {
      EXPECT_TRUE(lines.empty()) << log;
      continue;
    }
    ASSERT_EQ(lines.size(), 1U) << log;
    const json line = json::parse(lines[0]);
    EXPECT_EQ(line.at("status"), 503);
    EXPECT_EQ(line.at("path"), kPath);
    EXPECT_EQ(line.at("reason"), "overloaded");
    EXPECT_FALSE(line.contains("model")) << "the only model has no name";
  }
}

}  // namespace
}  // namespace tp::test
