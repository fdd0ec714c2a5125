// The gateway in front of servers with adapters, each of which is a model's name.
#include "tests/launch/demo_adapter.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <csignal>
#include <fstream>
#include <future>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

const std::string kDemo = TP_SOURCE_FOLDER "/model/demo";

json asked_of(const std::string& model, const json& more = json::object()) {
  // Some blocks of the prefix cache.
  std::string prompt = "Once upon a time, a girl named Emma lived by the sea with a small bird.";
  for (int day = 0; day < 4; ++day) prompt += " One day, the bird flew to the cave, and Emma looked for it.";
  json body = {{"prompt", prompt}, {"max_tokens", 24}, {"temperature", 0}};
  if (!model.empty()) body["model"] = model;
  body.update(more);
  return body;
}

std::string answer_text(const json& reply) { return reply.at("choices").at(0).at("text").get<std::string>(); }

std::size_t cached_in(const json& reply) {
  return reply.at("usage").at("prompt_tokens_details").at("cached_tokens").get<std::size_t>();
}

Arguments with_adapters(const DemoAdapter& adapter, const std::string& first, const std::string& second) {
  return {"--model",   kDemo,
          "--weights", "f32",
          "--lora",    first + "=" + adapter.path(),
          "--lora",    second + "=" + adapter.path() + ":4"};
}

TEST(GatewayAdapters, AreModelsOfASingleServerAndKeepTheirPromptsApart) {
  const DemoAdapter adapter;
  GatewayProgram gateway(serve_command(2, with_adapters(adapter, "tuned", "strong")));
  ASSERT_TRUE(gateway.is_ready());
  EXPECT_EQ(gateway.get("/v1/models").json().at("data").size(), 3U);
  std::map<std::string, std::string> texts;
  for (const char* const model : {"", "tuned", "strong"}) {
    const json reply = gateway.post(kPath, asked_of(model)).json();
    texts[model] = answer_text(reply);
    EXPECT_EQ(cached_in(reply), 0U) << model << ": a prompt of another adapter";
    const json again = gateway.post(kPath, asked_of(model)).json();
    EXPECT_EQ(answer_text(again), texts[model]);
    EXPECT_GT(cached_in(again), 0U) << model;
  }
  EXPECT_NE(texts["tuned"], texts[""]);
  EXPECT_NE(texts["strong"], texts["tuned"]);
  EXPECT_EQ(answer_text(gateway.post(kPath, asked_of("", {{"adapter", "tuned"}})).json()), texts["tuned"]);
  EXPECT_EQ(gateway.post(kPath, asked_of("french")).status, 404);

  // The next job continues the answer with its adapter.
  const std::string whole =
      answer_text(gateway.post(kPath, asked_of("tuned", {{"max_tokens", 300}, {"ignore_eos", true}})).json());
  auto interrupted = std::async(std::launch::async, [&] {
    return gateway.post(kPath, asked_of("tuned", {{"max_tokens", 300}, {"ignore_eos", true}}));
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 300; }));
  send_signal(gateway.member("tp-infer"), SIGKILL);
  EXPECT_EQ(answer_text(interrupted.get().json()), whole);
  gateway.end();
}

TEST(GatewayAdapters, ChooseTheServerThatHasThem) {
  const DemoAdapter adapter;
  const TemporaryDirectory folder;
  const std::string config = (folder.path() / "gateway.json").string();
  const json models = {{{"name", "one"}, {"commands", {serve_command(1, with_adapters(adapter, "a", "b"))}}},
                       {{"name", "two"}, {"commands", {serve_command(1, with_adapters(adapter, "c", "d"))}}}};
  std::ofstream(config) << json{{"models", models}};
  GatewayProgram gateway({}, {"--config", config});
  const json list = gateway.get("/v1/models").json().at("data");
  ASSERT_EQ(list.size(), 6U) << list;
  EXPECT_EQ(list[4].at("id"), "c");
  EXPECT_EQ(list[4].at("parent"), "two");
  EXPECT_EQ(gateway.get("/v1/models/c").json().at("parent"), "two");
  const json reply = gateway.post(kPath, asked_of("d")).json();
  EXPECT_EQ(reply.at("model"), "d");
  EXPECT_EQ(gateway.state_of("one"), "stopped") << "only the model of the adapter was started";
  EXPECT_EQ(gateway.state_of("two"), "ready");
  EXPECT_NE(answer_text(reply), answer_text(gateway.post(kPath, asked_of("two")).json()));
  EXPECT_EQ(answer_text(gateway.post(kPath, asked_of("two", {{"adapter", "d"}})).json()), answer_text(reply));
  const HttpReply unknown = gateway.post(kPath, asked_of("e"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("one, a, b, two, c, d"), std::string::npos) << unknown.body;
  gateway.end();
}

}  // namespace
}  // namespace tp::test
