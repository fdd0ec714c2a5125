// Answers that must be tool calls, or must match a schema after thinking, over the server's three APIs.
#include "tests/expect_contains.h"
#include "tests/serve/tool_requests.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

json schema_of(int max_days) {
  return {{"type", "object"},
          {"properties",
           {{"city", {{"enum", {"Oslo", "Rome"}}}},
            {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", max_days}}}}},
          {"required", {"city", "days"}}};
}

json weather_tool(int max_days, bool strict = false) {
  return {{"type", "function"},
          {"function", {{"name", "get_weather"}, {"strict", strict}, {"parameters", schema_of(max_days)}}}};
}

json held(const std::string& script, const json& more) {
  json body = chat(script, {{"max_tokens", 300}});
  body["tools"] = {weather_tool(7), {{"type", "function"}, {"function", {{"name", "get_time"}}}}};
  body.update(more);
  return body;
}

class ServeHeldAnswers : public OneServer<ScriptedModel> {
 protected:
  static json choice_of(const json& body) {
    const HttpReply reply = server_->post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json().at("choices").at(0);
  }
  static json arguments_of(const json& call) {
    return json::parse(call.at("function").at("arguments").get<std::string>());
  }
  static std::string refusal(const std::string& path, const json& body) {
    const HttpReply reply = server_->post(path, body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json().at("error").at("message");
  }
};

TEST_F(ServeHeldAnswers, RequiredCallsFollowThinkingImmediately) {
  const json more = {{"tool_choice", "required"}, {"tools", {weather_tool(1)}}};
  const json choice = choice_of(held("call", more));
  const json message = choice.at("message");
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  EXPECT_EQ(message.at("reasoning_content"), "I should look it up.");
  EXPECT_TRUE(message.at("content").is_null() || message.at("content") == "") << message;
  ASSERT_EQ(message.at("tool_calls").size(), 1U) << message;
  EXPECT_EQ(message.at("tool_calls")[0].at("function").at("name"), "get_weather");
  EXPECT_EQ(arguments_of(message.at("tool_calls")[0]), (json{{"city", "Oslo"}, {"days", 1}}));

  json streaming = held("call", more);
  streaming["stream"] = true;
  const json streamed = streamed_message(server_->post("/v1/chat/completions", streaming));
  EXPECT_EQ(streamed.at("reasoning_content"), message.at("reasoning_content"));
  EXPECT_EQ(arguments_of(streamed.at("tool_calls").at(0)), arguments_of(message.at("tool_calls")[0]));
}

// Without the constraint, the model writes "Hello there.".
TEST_F(ServeHeldAnswers, AModelThatWouldNotCallDoes) {
  for (const char* parallel : {"true", "false"}) {
    const json choice = choice_of(
        held("plain", {{"tool_choice", "required"}, {"parallel_tool_calls", json::parse(parallel)}}));
    if (choice.at("finish_reason") == "length") continue;  // the model may call tools without end
    ASSERT_FALSE(choice.at("message").at("tool_calls").empty()) << choice;
  }
}

TEST_F(ServeHeldAnswers, ANamedToolIsCalledOnce) {
  const json choice = {{"type", "function"}, {"function", {{"name", "get_time"}}}};
  const json message = choice_of(held("call", {{"tool_choice", choice}})).at("message");
  ASSERT_EQ(message.at("tool_calls").size(), 1U) << message;
  EXPECT_EQ(message.at("tool_calls")[0].at("function"), (json{{"name", "get_time"}, {"arguments", "{}"}}));
}

// Without the constraint, the model writes two days.
TEST_F(ServeHeldAnswers, StrictToolsHaveOnlyArgumentsThatTheirParametersAllow) {
  const auto message_of = [&](bool strict) {
    return choice_of(held("call", {{"tools", {weather_tool(1, strict)}}})).at("message");
  };
  EXPECT_EQ(arguments_of(message_of(false).at("tool_calls")[0]).at("days"), 2);
  const json message = message_of(true);
  EXPECT_EQ(message.at("content"), "Let me see.");
  EXPECT_EQ(message.at("reasoning_content"), "I should look it up.");
  ASSERT_EQ(message.at("tool_calls").size(), 1U) << message;
  EXPECT_EQ(arguments_of(message.at("tool_calls")[0]), (json{{"city", "Oslo"}, {"days", 1}}));
  EXPECT_EQ(choice_of(held("plain", {{"tools", {weather_tool(1, true)}}})).at("message").at("content"),
            "Hello there.");
}

TEST_F(ServeHeldAnswers, ASchemaAppliesAfterThinkingThatMayBeLimited) {
  const json format = {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema_of(3)}}}};
  for (const json& limit : {json(), json(2), json(0)}) {
    const json choice = choice_of(
        held("call", {{"response_format", format}, {"tools", nullptr}, {"max_thinking_tokens", limit}}));
    const json message = choice.at("message");
    EXPECT_EQ(choice.at("finish_reason"), "stop") << choice;
    EXPECT_EQ(message.value("reasoning_content", ""), limit.is_null() ? "I should look it up."
                                                      : limit == 2    ? "I should"
                                                                      : "");
    const json answer = json::parse(message.at("content").get<std::string>(), nullptr, false);
    EXPECT_TRUE(answer.is_object() && answer.contains("days")) << choice;
  }
  const json kwargs = {{"script", "plain"}, {"enable_thinking", false}};
  EXPECT_FALSE(choice_of(held("plain", {{"guided_choice", {"yes", "no"}}, {"chat_template_kwargs", kwargs}}))
                   .at("message")
                   .contains("reasoning_content"));
}

TEST_F(ServeHeldAnswers, RestrictResponses) {
  json tool = {{"type", "function"}, {"name", "get_weather"}, {"parameters", schema_of(1)}};
  json body = {{"input", "The weather?"},
               {"tools", {tool}},
               {"tool_choice", {{"type", "function"}, {"name", "get_weather"}}},
               {"temperature", 0},
               {"chat_template_kwargs", {{"script", "call"}}}};
  for (const char* way : {"named", "required", "strict"}) {
    if (way == std::string("required")) body["tool_choice"] = "required";
    if (way == std::string("strict")) {
      body["tool_choice"] = "auto";
      body["tools"][0]["strict"] = true;
    }
    const json whole = server_->post("/v1/responses", body).json();
    const json last = whole.at("output").back();
    EXPECT_EQ(last.at("type"), "function_call") << whole;
    EXPECT_EQ(json::parse(last.at("arguments").get<std::string>()), (json{{"city", "Oslo"}, {"days", 1}}))
        << way;
    EXPECT_EQ(whole.at("tool_choice"), body.at("tool_choice"));
  }
}

TEST_F(ServeHeldAnswers, RestrictAnthropicsMessages) {
  json body = {{"messages", {{{"role", "user"}, {"content", "The weather?"}}}},
               {"max_tokens", 300},
               {"tools", {{{"name", "get_weather"}, {"input_schema", schema_of(1)}}}},
               {"temperature", 0},
               {"chat_template_kwargs", {{"script", "call"}}}};
  const json choices[] = {{{"type", "any"}},
                          {{"type", "tool"}, {"name", "get_weather"}},
                          {{"type", "any"}, {"disable_parallel_tool_use", true}}};
  for (const json& choice : choices) {
    body["tool_choice"] = choice;
    const json whole = server_->post("/v1/messages", body).json();
    ASSERT_EQ(whole.at("content").size(), 2U) << whole;
    EXPECT_EQ(whole.at("content")[0].at("type"), "thinking");
    EXPECT_EQ(whole.at("content")[1].at("input"), (json{{"city", "Oslo"}, {"days", 1}})) << whole;
    EXPECT_EQ(whole.at("stop_reason"), "tool_use");
  }
  body["tool_choice"] = {{"type", "none"}};
  const json message = server_->post("/v1/messages", body).json();
  for (const json& block : message.at("content")) EXPECT_NE(block.at("type"), "tool_use");
}

TEST_F(ServeHeldAnswers, RejectsImpossibleRestrictions) {
  const auto chat_refusal = [&](const json& more) {
    return refusal("/v1/chat/completions", held("call", more));
  };
  const json unknown = {{"type", "function"}, {"function", {{"name", "f"}}}};
  EXPECT_EQ(chat_refusal({{"tool_choice", unknown}}),
            "`tool_choice`: expected a tool of `tools`, found \"f\"; add it there");
  EXPECT_EQ(chat_refusal({{"tool_choice", "required"}, {"tools", nullptr}}),
            "`tool_choice`: expected a tool of `tools`, found none; add it there");
  EXPECT_EQ(chat_refusal({{"tool_choice", "always"}}).find("`tool_choice`: expected none, auto, required"),
            0U);
  json tool = weather_tool(1, true);
  tool["function"]["parameters"]["properties"]["city"] = {{"uniqueItems", true}};
  EXPECT_EQ(chat_refusal({{"tools", {tool}}})
                .find("`tools`: parameters of `get_weather`: the JSON Schema at `/properties/city"),
            0U);
  tool["function"]["strict"] = "yes";
  EXPECT_EQ(chat_refusal({{"tools", {tool}}}).find("`tools`: expected true or false as `strict`"), 0U);
  EXPECT_EQ(refusal("/v1/messages", {{"messages", {{{"role", "user"}, {"content", "?"}}}},
                                     {"max_tokens", 3},
                                     {"tool_choice", {{"type", "each"}}}})
                .find("`tool_choice`: expected the type auto, none, any or tool, found each"),
            0U);
}

// Sizes and depths of schemas are limited, and other requests still work.
TEST_F(ServeHeldAnswers, HostileToolsAreRefused) {
  json deep = {{"type", "string"}};
  for (int i = 0; i < 15; ++i) deep = {{"type", "object"}, {"properties", {{"a", deep}}}};
  json bomb = json::object();
  for (int i = 0; i < 12; ++i) {
    const json next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    bomb[std::to_string(i)] = {{"allOf", json::array({next, next, next, next, next, next})}};
  }
  bomb["12"] = {{"type", "object"}};
  const std::pair<json, const char*> cases[] = {
      {{{"$defs", bomb}, {"$ref", "#/$defs/0"}}, "written out"},
      {{{"$ref", "#"}}, "references"},
      {{{"properties",
         {{"a", {{"type", "string"}, {"pattern", "(((a{0,1000}){0,1000}){0,1000}){0,1000}"}}}}}},
       "`tools`: parameters of `get_weather`"},
      {{{"properties", {{"a", {{"type", "string"}, {"pattern", std::string(100, '(')}}}}}},
       "expected `)`, found its end at offset 100"},
  };
  for (const auto& [parameters, text] : cases) {
    json tool = weather_tool(1, true);
    tool["function"]["parameters"] = parameters;
    const HttpReply reply =
        server_->post("/v1/chat/completions", held("call", {{"tools", {tool}}, {"max_tokens", 3}}));
    if (reply.status == 200) continue;  // the schema is large, but satisfiable
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_CONTAINS(reply.body, text);
  }
  json tool = weather_tool(1, true);
  tool["function"]["parameters"] = deep;
  EXPECT_EQ(choice_of(held("call", {{"tools", {tool}}, {"tool_choice", "required"}}))
                .at("message")
                .at("tool_calls")
                .size(),
            1U);
  tool["function"]["name"] = std::string(100000, 'n');
  EXPECT_CONTAINS(refusal("/v1/chat/completions", held("call", {{"tools", {tool}}})),
                  "expected names of at most 256 bytes, found one of 100000");
  EXPECT_EQ(choice_of(chat("plain")).at("message").at("content"), "Hello there.");
}

}  // namespace
}  // namespace tp::test
