// A server offers adapters as models.
#include "tests/expect_contains.h"
#include "tests/launch/demo_adapter.h"
#include "tests/serve/served_program.h"

#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

json lora_completion(const std::string& model, json more = json::object()) {
  json body = {{"prompt", "Once upon a time"}, {"max_tokens", 24}, {"temperature", 0}};
  if (!model.empty()) body["model"] = model;
  body.update(more);
  return body;
}

TEST(ServeAdapters, AreSeparateModels) {
  const DemoAdapter adapter;
  ServedProgram server(2, {"--weights", "f32", "--model-name", "base", "--lora", "tuned=" + adapter.path(),
                           "--lora", "nothing=" + adapter.path() + ":0"});
  const json models = server.get("/v1/models").json();
  ASSERT_EQ(models.at("data").size(), 3U);
  EXPECT_EQ(models.at("data").at(0).at("id"), "base");
  EXPECT_EQ(models.at("data").at(0).at("parent"), nullptr);
  EXPECT_EQ(models.at("data").at(1).at("id"), "tuned");
  EXPECT_EQ(models.at("data").at(1).at("parent"), "base");
  EXPECT_EQ(server.get("/v1/models/nothing").json().at("parent"), "base");

  const auto answer_text = [&](const json& body) {
    const json reply = server.post("/v1/completions", body).json();
    return reply.at("choices").at(0).at("text").get<std::string>();
  };
  const std::string plain = answer_text(lora_completion("base"));
  const std::string tuned = answer_text(lora_completion("tuned"));
  EXPECT_NE(tuned, plain);
  EXPECT_EQ(answer_text(lora_completion("")), plain);
  EXPECT_EQ(answer_text(lora_completion("nothing")), plain);
  EXPECT_EQ(answer_text(lora_completion("tuned")), tuned) << "with a cached prefix";
  EXPECT_EQ(answer_text(lora_completion("base", {{"adapter", "tuned"}})), tuned);
  EXPECT_EQ(server.post("/v1/completions", lora_completion("tuned")).json().at("model"), "tuned");
  const HttpReply unknown = server.post("/v1/completions", lora_completion("french"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_CONTAINS(unknown.body, "and its adapters");
  EXPECT_EQ(server.post("/v1/completions", lora_completion("base", {{"adapter", "french"}})).status, 400);
  server.end();
}

}  // namespace
}  // namespace tp::test
