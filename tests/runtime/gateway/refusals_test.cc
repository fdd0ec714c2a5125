#include "runtime/gateway/refusals.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

struct Written {
  std::vector<std::string> lines{};
  Refusals refusals;

  explicit Written(bool as_json = false)
      : refusals([this](const std::string& line) { lines.push_back(line); }, as_json) {}
  bool counts(const std::string& labels, int count) const {
    const std::string line =
        "\ntpinfer:gateway_request_refused_total{" + labels + "} " + std::to_string(count) + "\n";
    return refusals.metrics().find(line) != std::string::npos;
  }
};

HttpRequest request_of(const std::string& target) {
  return {.method = "POST",
          .target = target,
          .headers = {{"x-request-id", "r1 user=alice"}},
          .client = "192.0.2.7",
          .user = "bob"};
}

TEST(Refusals, AreCountedByModelAndStatus) {
  Written written;
  EXPECT_NE(written.refusals.metrics().find("# TYPE tpinfer:gateway_request_refused_total counter\n"),
            std::string::npos);
  const HttpRequest request = request_of("/v1/completions");
  for (const char* model : {"a \"b\"", "a \"b\"", ""}) written.refusals.add(request, {.status = 429}, model);
  written.refusals.add(request, {.status = 401});
  EXPECT_TRUE(written.counts(R"(model="a \"b\"",status="429")", 2)) << written.refusals.metrics();
  EXPECT_TRUE(written.counts(R"(status="429")", 1));
  EXPECT_TRUE(written.counts(R"(status="401")", 1));
}

TEST(Refusals, HaveALineLikeTheServers) {
  const ApiError error{
      .status = 404, .message = "there is no model `x`", .param = "model", .code = "no_model"};
  Written text;
  text.refusals.add(request_of("/v1/completions?key=secret"), error, "a b", 1.5);
  ASSERT_EQ(text.lines.size(), 1U);
  const std::string expected =
      " 192.0.2.7 POST /v1/completions 404 user=bob model=a?b by=gateway total=1.500s "
      "request=r1?user?alice param=model no_model";
  EXPECT_TRUE(text.lines[0].ends_with(expected)) << text.lines[0];
  Written json(true);
  json.refusals.add(request_of("/v1/completions"), error, "a b");
  ASSERT_EQ(json.lines.size(), 1U);
  const auto line = nlohmann::json::parse(json.lines[0]);
  EXPECT_EQ(line.at("by"), "gateway");
  EXPECT_EQ(line.at("model"), "a b");
  EXPECT_EQ(line.at("status"), 404);
  EXPECT_EQ(line.at("reason"), "no_model");
}

// The secret of a job would let the log's readers act as its gateway.
TEST(Refusals, HideTheSecretsOfJobs) {
  Written written;
  for (const char* target : {"/tp-infer/announce/5ec2e7", "http://node1/tp-infer/announce/5ec2e7"})
    written.refusals.add(request_of(target), {.status = 403});
  ASSERT_EQ(written.lines.size(), 2U);
  for (const std::string& line : written.lines) {
    EXPECT_EQ(line.find("5ec2e7"), std::string::npos) << line;
    EXPECT_NE(line.find(" /tp-infer/announce/ 403 "), std::string::npos) << line;
  }
}

TEST(Refusals, IgnoreMonitoringOfModelsWithoutAJob) {
  Written written;
  for (const char* target : {"/metrics?model=a", "/v1/status?model=a", "/status", "/v1/models", "/version"})
    written.refusals.add(request_of(target), {.status = 503}, "a");
  EXPECT_TRUE(written.lines.empty());
  EXPECT_FALSE(written.counts(R"(model="a",status="503")", 4));
  written.refusals.add(request_of("/metrics"), {.status = 401});
  written.refusals.add(request_of("/v1/completions"), {.status = 503}, "a");
  EXPECT_EQ(written.lines.size(), 2U) << "a missing key, and a request for an answer";
  EXPECT_TRUE(written.counts(R"(status="401")", 1));
  EXPECT_TRUE(written.counts(R"(model="a",status="503")", 1));
}

TEST(Refusals, HaveNoLineWithoutARequest) {
  Written written;
  written.refusals.add({.client = "192.0.2.7"}, {.status = 400});
  EXPECT_TRUE(written.lines.empty());
  EXPECT_TRUE(written.counts(R"(status="400")", 1));
  Refusals quiet(nullptr, false);
  quiet.add(request_of("/v1/completions"), {.status = 401});
  EXPECT_NE(quiet.metrics().find("{status=\"401\"} 1\n"), std::string::npos);
}

}  // namespace
}  // namespace tp::test
