// Tools together with an output schema, over the server's three APIs: an answer is either a tool call or
// matches the schema.
#include "tests/serve/tool_requests.h"

#include <ostream>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Both scripts think first. Then one calls a tool, and the other writes an object of the schema.
Scripts scripts() {
  return {{"call",
           {"<think>", "It is not known.", "</think>", "<tool_call>",
            "{\"name\": \"get_weather\", \"arguments\": {", "\"city\": ", "\"Oslo\"}}", "</tool_call>"}},
          {"shape", {"<think>It is", " known.</think>\n\n", "{\"t\":", " 7}"}}};
}

json schema_of(const char* name, const char* type) {
  return {{"type", "object"}, {"properties", {{name, {{"type", type}}}}}, {"required", {name}}};
}

const json kFormat = {{"type", "json_schema"},
                      {"json_schema", {{"name", "o"}, {"schema", schema_of("t", "integer")}}}};

// The parts of an answer: thinking, text, and the city argument of the call.
struct Parts {
  std::string thought;
  std::string text;
  std::string city;

  bool operator==(const Parts&) const = default;
};

std::ostream& operator<<(std::ostream& stream, const Parts& parts) {
  return stream << parts.thought << " | " << parts.text << " | " << parts.city;
}

std::string city_in(const std::string& arguments) {
  return json::parse(arguments).at("city").get<std::string>();
}

const Parts kCall = {"It is not known.", "", "Oslo"};
const Parts kShape = {"It is known.", "{\"t\": 7}", ""};

struct CallOrShapeModel : ScriptedModel {
  CallOrShapeModel() : ScriptedModel(scripts()) {}
};

class ServeCallsOrShape : public OneServer<CallOrShapeModel> {
 protected:
  static HttpReply answer(const char* path, const char* script, json body, const json& more) {
    body.update({{"temperature", 0}, {"chat_template_kwargs", {{"script", script}}}});
    body.update(more);
    HttpReply reply = server_->post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply;
  }

  static Parts chat_parts(const char* script, const json& more) {
    const json body = {
        {"messages", {{{"role", "user"}, {"content", "q"}}}},
        {"max_tokens", 60},
        {"response_format", kFormat},
        {"tools",
         {{{"type", "function"},
           {"function", {{"name", "get_weather"}, {"parameters", schema_of("city", "string")}}}}}}};
    const HttpReply reply = answer("/v1/chat/completions", script, body, more);
    const json message =
        more.contains("stream") ? streamed_message(reply) : reply.json().at("choices").at(0).at("message");
    Parts parts;
    parts.thought = message.value("reasoning_content", "");
    if (!message.at("content").is_null()) parts.text = message.at("content");
    for (const json& call : message.value("tool_calls", json::array()))
      parts.city += city_in(call.at("function").at("arguments"));
    return parts;
  }

  static Parts responses_parts(const char* script, const json& more) {
    json format = kFormat.at("json_schema");
    format["type"] = "json_schema";
    const json body = {
        {"input", "q"},
        {"max_output_tokens", 60},
        {"text", {{"format", format}}},
        {"tools",
         {{{"type", "function"}, {"name", "get_weather"}, {"parameters", schema_of("city", "string")}}}}};
    const HttpReply reply = answer("/v1/responses", script, body, more);
    const json response = more.contains("stream") ? reply.chunks().back().at("response") : reply.json();
    Parts parts;
    for (const json& item : response.at("output")) {
      if (item.at("type") == "function_call")
        parts.city += city_in(item.at("arguments"));
      else
        (item.at("type") == "reasoning" ? parts.thought : parts.text) += item.at("content")[0].at("text");
    }
    return parts;
  }

  static Parts messages_parts(const char* script, const json& more) {
    const json body = {
        {"messages", {{{"role", "user"}, {"content", "q"}}}},
        {"max_tokens", 60},
        {"output_config", {{"format", {{"type", "json_schema"}, {"schema", schema_of("t", "integer")}}}}},
        {"tools", {{{"name", "get_weather"}, {"input_schema", schema_of("city", "string")}}}}};
    const HttpReply reply = answer("/v1/messages", script, body, more);
    Parts parts;
    std::string input;
    if (more.contains("stream")) {
      for (const json& event : reply.chunks()) {
        if (event.at("type") != "content_block_delta") continue;
        const json& delta = event.at("delta");
        parts.thought += delta.value("thinking", "");
        parts.text += delta.value("text", "");
        input += delta.value("partial_json", "");
      }
    } else {
      const json whole = reply.json();
      for (const json& block : whole.at("content")) {
        parts.thought += block.value("thinking", "");
        parts.text += block.value("text", "");
        if (block.contains("input")) input += block.at("input").dump();
      }
    }
    if (!input.empty()) parts.city = city_in(input);
    return parts;
  }
};

TEST_F(ServeCallsOrShape, TheModelChoosesBetweenACallAndTheShapeInEveryApi) {
  for (const json& more : {json::object(), json{{"stream", true}}}) {
    SCOPED_TRACE(more.dump());
    EXPECT_EQ(chat_parts("call", more), kCall);
    EXPECT_EQ(chat_parts("shape", more), kShape);
    EXPECT_EQ(responses_parts("call", more), kCall);
    EXPECT_EQ(responses_parts("shape", more), kShape);
    EXPECT_EQ(messages_parts("call", more), kCall);
    EXPECT_EQ(messages_parts("shape", more), kShape);
  }
}

// The tool choice forbids the scripts' continuations, so the contents of these answers are arbitrary.
TEST_F(ServeCallsOrShape, TheToolChoiceDecides) {
  const auto is_shape = [](const Parts& parts) {
    const json text = json::parse(parts.text, nullptr, false);
    return parts.city.empty() && text.is_object() && text.contains("t");
  };
  const auto is_call = [](const Parts& parts) { return parts.text.empty() && parts.city == "Oslo"; };
  // 300 tokens are enough for the longest white space and number.
  const json room = {{"max_tokens", 300}};
  const auto with = [&](const json& choice) {
    json more = room;
    more["tool_choice"] = choice;
    return more;
  };
  EXPECT_TRUE(is_shape(chat_parts("call", with("none"))));
  EXPECT_TRUE(is_call(chat_parts("call", with("required"))));
  EXPECT_TRUE(
      is_call(chat_parts("call", with({{"type", "function"}, {"function", {{"name", "get_weather"}}}}))));
  EXPECT_TRUE(is_shape(responses_parts("shape", with("none"))));
  EXPECT_TRUE(is_call(responses_parts("call", with({{"type", "function"}, {"name", "get_weather"}}))));
  EXPECT_TRUE(is_shape(messages_parts("shape", with({{"type", "none"}}))));
  EXPECT_TRUE(is_call(messages_parts("call", with({{"type", "any"}}))));
}

TEST_F(ServeCallsOrShape, OtherConstraintsAlsoAllowCalls) {
  for (const json& more : {json{{"guided_regex", "[0-9]+"}}, json{{"guided_choice", {"yes", "no"}}},
                           json{{"structured_outputs", {{"grammar", "root ::= \"a\""}}}}}) {
    json body = more;
    body["response_format"] = nullptr;
    EXPECT_EQ(chat_parts("call", body), kCall) << more;
  }
}

}  // namespace
}  // namespace tp::test
