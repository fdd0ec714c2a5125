// Values that clients of other servers send, and that vLLM, llama.cpp, OpenAI or Anthropic accept.
#include "tests/expect_contains.h"
#include "tests/serve/tool_requests.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// The template does not start thinking itself, and it includes earlier reasoning.
constexpr const char* kHistoryTemplate =
    "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}"
    "{% for message in messages %}<{{ message.role }}>{{ message.reasoning_content or '' }}|"
    "{{ message.content or '' }}|"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor "
    "%}"
    "{% endfor %}{# <think> and </think> #}"
    "{% if add_generation_prompt %}{{ '#' + (script or 'plain') }}{% endif %}";

struct HistoryModel : ScriptedModel {
  Arguments arguments() const {
    const std::string file = folder.write("history.jinja", kHistoryTemplate);
    return {"--model", folder.path().string(), "--chat-template", file};
  }
};

class ServePeerValues : public OneServer<HistoryModel> {
 protected:
  static json answer(const std::string& path, const json& body) {
    const HttpReply reply = server_->post(path, body);
    EXPECT_EQ(reply.status, 200) << body << "\n" << reply.body;
    return reply.status == 200 ? reply.json() : json::object();
  }
  static json error(const std::string& path, const json& body) {
    const HttpReply reply = server_->post(path, body);
    EXPECT_EQ(reply.status, 400) << body << "\n" << reply.body;
    return reply.json().value("error", json());
  }
  static std::string prompt_of(const json& body) {
    return answer("/apply-template", body).value("prompt", "");
  }
};

json responses(const json& input, const json& more = json::object()) {
  json body = {{"input", input}, {"temperature", 0}};
  body.update(more);
  return body;
}

json flat_tool(const std::string& name) {
  return {{"type", "function"}, {"name", name}, {"parameters", {{"type", "object"}}}, {"strict", nullptr}};
}

bool warns_of(const json& answer, const std::string& type) {
  return answer.value("warnings", json::array()).dump().find("of type " + type + " ") != std::string::npos;
}

TEST_F(ServePeerValues, ToolsThatTheModelIsNotOfferedAreLeftOutWithAWarning) {
  const json more = {
      {"tools", {flat_tool("get_weather"), {{"type", "web_search"}}, {{"type", "computer"}, {"name", "f"}}}},
      {"chat_template_kwargs", {{"script", "call"}}}};
  const json whole = answer("/v1/responses", responses("Hi", more));
  EXPECT_TRUE(warns_of(whole, "web_search") && warns_of(whole, "computer")) << whole;
  EXPECT_EQ(whole.at("output").back().value("name", ""), "get_weather") << whole;
  json streamed = responses("Hi", more);
  streamed["stream"] = true;
  EXPECT_TRUE(warns_of(server_->post("/v1/responses", streamed).chunks().back().at("response"), "computer"));

  json body = chat("call");
  body["tools"].push_back({{"type", "web_search_preview"}});
  EXPECT_TRUE(warns_of(answer("/v1/chat/completions", body), "web_search_preview"));
  body["stream"] = true;
  EXPECT_TRUE(warns_of(server_->post("/v1/chat/completions", body).chunks().front(), "web_search_preview"));

  const json messages = {
      {"max_tokens", 5},
      {"messages", {user_says("Hi")}},
      {"tools", {{{"type", "web_search_20250305"}, {"name", "web_search"}}, {{"name", "f"}}}}};
  EXPECT_TRUE(warns_of(answer("/v1/messages", messages), "web_search_20250305"));
  EXPECT_FALSE(answer("/v1/responses", responses("Hi")).contains("warnings"));
}

TEST_F(ServePeerValues, FunctionsOfANamespaceAreOfferedAndCalledByTheirNamespace) {
  const json space = {{"type", "namespace"},
                      {"name", "mcp__sky"},
                      {"description", "d"},
                      {"tools", {flat_tool("get_weather")}}};
  const json more = {{"tools", {space}}, {"chat_template_kwargs", {{"script", "call"}}}};
  const json whole = answer("/v1/responses", responses("Hi", more));
  const json call = whole.at("output").back();
  EXPECT_EQ(call.value("name", ""), "get_weather") << whole;
  EXPECT_EQ(call.value("namespace", ""), "mcp__sky") << whole;
  json streamed = responses("Hi", more);
  streamed["stream"] = true;
  const json last = server_->post("/v1/responses", streamed).chunks().back();
  EXPECT_EQ(last.at("response").at("output").back().value("namespace", ""), "mcp__sky") << last;
}

TEST_F(ServePeerValues, ResponsesTakeItemsOfEveryKind) {
  const json input = {
      user_says("Hi"),
      {{"type", "reasoning"},
       {"id", "rs_1"},
       {"summary", json::array()},
       {"content", {{{"type", "reasoning_text"}, {"text", "Hm."}}}}},
      {{"type", "web_search_call"}, {"id", "ws_1"}, {"status", "completed"}},
      {{"type", "custom_tool_call"}, {"call_id", "c1"}, {"name", "patch"}, {"input", "+a"}},
      {{"type", "custom_tool_call_output"}, {"call_id", "c1"}, {"output", "done"}},
      {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No."}}}}},
      user_says("So?")};
  EXPECT_TRUE(warns_of(answer("/v1/responses", responses(input)), "web_search_call"));
  const json reference = error("/v1/responses", responses({{{"type", "item_reference"}, {"id", "msg_1"}}}));
  EXPECT_EQ(reference.value("param", ""), "input");
  EXPECT_CONTAINS(reference.value("message", ""), "store: false") << reference;
  EXPECT_EQ(error("/v1/responses", responses({{{"id", "msg_1"}}})).value("param", ""), "input");
}

TEST_F(ServePeerValues, ChatsTakeRefusalsAndNulls) {
  const json refusal = {{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No."}}}}};
  EXPECT_CONTAINS(prompt_of({{"messages", {user_says("Hi"), refusal, user_says("So?")}}}),
                  "<assistant>|No.|");
  const json outside = {
      {"role", "assistant"}, {"content", nullptr}, {"refusal", "Never."}, {"audio", nullptr}};
  EXPECT_CONTAINS(prompt_of({{"messages", {user_says("Hi"), outside, user_says("So?")}}}),
                  "<assistant>|Never.|");
  const json result = {{"role", "tool"}, {"tool_call_id", "a"}, {"content", nullptr}};
  EXPECT_CONTAINS(prompt_of({{"messages", {user_says("Hi"), result}}}), "<tool>||");
  const json thought = {{"role", "assistant"}, {"content", "Ok"}, {"reasoning", "Hm."}};
  EXPECT_CONTAINS(prompt_of({{"messages", {user_says("Hi"), thought}}}), "<assistant>Hm.|Ok|");
}

TEST_F(ServePeerValues, ImagesAreRefusedInEveryApi) {
  const std::string url = "data:image/png;base64,iVBORw0KGgo=";
  const json image = {{"type", "input_image"}, {"image_url", url}};
  const json asks = {{"type", "text"}, {"text", "What is this?"}};
  const auto of_user = [&](const json& part) {
    return json::array({{{"role", "user"}, {"content", json::array({asks, part})}}});
  };
  const auto refuse = [](const char* path, const char* member, const json& content, const char* type) {
    const json refusal = error(path, {{member, content}, {"max_tokens", 5}});
    EXPECT_EQ(refusal.value("type", ""), "invalid_request_error");
    const std::string message = refusal.value("message", "");
    EXPECT_TRUE(message.starts_with("`" + std::string(member) + "`: ")) << message;
    EXPECT_CONTAINS(message, "\"" + std::string(type) + "\"");
    EXPECT_TRUE(message.ends_with("; the model reads texts only")) << message;
  };
  refuse("/v1/chat/completions", "messages", of_user({{"type", "image_url"}, {"image_url", {{"url", url}}}}),
         "image_url");
  refuse("/v1/messages", "messages",
         of_user({{"type", "image"}, {"source", {{"type", "url"}, {"url", url}}}}), "image");
  refuse("/v1/responses", "input", of_user(image), "input_image");
  refuse("/v1/responses", "input", json::array({image}), "input_image");
  const json result = {{"type", "function_call_output"}, {"call_id", "c"}, {"output", json::array({image})}};
  refuse("/v1/responses", "input", json::array({result}), "input_image");
}

TEST_F(ServePeerValues, NumbersThatOtherServersTakeAreTaken) {
  for (const json& more : {json{{"top_k", -1}}, json{{"top_k", 50.0}}, json{{"seed", -1}}, json{{"seed", -7}},
                           json{{"seed", 1e3}}, json{{"max_tokens", 3.0}}, json{{"max_tokens", -1}},
                           json{{"stop", ""}}, json{{"stop", {""}}}, json{{"top_p", 0}},
                           json{{"top_logprobs", 0}}, json{{"logprobs", false}, {"top_logprobs", 0}}})
    answer("/v1/chat/completions", chat("plain", more));
  answer("/v1/completions", {{"prompt", "a"}, {"logprobs", false}});
  EXPECT_EQ(error("/v1/chat/completions", chat("plain", {{"top_k", -2}})).value("param", ""), "top_k");
  EXPECT_EQ(error("/v1/chat/completions", chat("plain", {{"top_logprobs", 1}})).value("param", ""),
            "top_logprobs");
  EXPECT_EQ(error("/v1/chat/completions", chat("plain", {{"top_k", 1.5}})).value("param", ""), "top_k");
}

TEST_F(ServePeerValues, ToolChoicesOfOtherServersAreTaken) {
  const auto names = [&](const json& choice) {
    const json message = answer("/v1/chat/completions", chat("two", {{"tool_choice", choice}}))
                             .at("choices")
                             .at(0)
                             .at("message");
    std::string all;
    for (const json& call : message.value("tool_calls", json::array()))
      all += call.at("function").at("name").get<std::string>() + " ";
    return all;
  };
  const json time = {{"type", "function"}, {"function", {{"name", "get_time"}}}};
  const json weather = {{"type", "function"}, {"function", {{"name", "get_weather"}}}};
  const auto allowed = [](const std::string& mode, const json& tools) {
    return json{{"type", "allowed_tools"}, {"allowed_tools", {{"mode", mode}, {"tools", tools}}}};
  };
  EXPECT_EQ(names(allowed("auto", json::array({weather}))), "get_weather ");
  EXPECT_EQ(names(allowed("auto", json::array({weather, time}))), "get_weather get_time ");
  EXPECT_EQ(names({{"type", "auto"}}), "get_weather get_time ");
  EXPECT_EQ(names({{"type", "none"}}), "");
  const json flat = {
      {"type", "allowed_tools"}, {"mode", "required"}, {"tools", {{{"type", "function"}, {"name", "b"}}}}};
  EXPECT_EQ(prompt_of({{"messages", {user_says("Hi")}},
                       {"tools", {function_tool("a"), function_tool("b")}},
                       {"tool_choice", flat}})
                .find("[b]<user>"),
            0U);
  EXPECT_EQ(error("/v1/chat/completions", chat("two", {{"tool_choice", {{"type", "web_search"}}}}))
                .value("param", ""),
            "tool_choice");
}

TEST_F(ServePeerValues, MessagesHonourTheirFormat) {
  const json schema = {{"type", "object"}, {"properties", {{"a", {{"const", 1}}}}}, {"required", {"a"}}};
  const json format = {{"type", "json_schema"}, {"schema", schema}};
  for (const json& more : {json{{"output_config", {{"format", format}}}}, json{{"output_format", format}}}) {
    json body = {{"max_tokens", 500}, {"messages", {user_says("Hi")}}, {"thinking", {{"type", "disabled"}}}};
    body.update(more);
    const json text = answer("/v1/messages", body).at("content").at(0).at("text");
    EXPECT_EQ(json::parse(text.get<std::string>(), nullptr, false), (json{{"a", 1}})) << text;
  }
  const json wrong = {
      {"max_tokens", 5}, {"messages", {user_says("Hi")}}, {"output_config", {{"format", {{"type", "x"}}}}}};
  EXPECT_CONTAINS(error("/v1/messages", wrong).value("message", ""), "`output_config`");
}

// If the server did not continue the client's text, the template would start a new answer with a different
// script.
TEST_F(ServePeerValues, MessagesContinueAnAnswerThatTheClientHasBegun) {
  const json blocks = {{{"type", "text"}, {"text", "Well #plain"}}};
  for (const json& content : {json("Well #plain"), blocks}) {
    const json body = {{"max_tokens", 4},
                       {"temperature", 0},
                       {"chat_template_kwargs", {{"script", "broken"}}},
                       {"messages", {user_says("Hi"), {{"role", "assistant"}, {"content", content}}}}};
    EXPECT_EQ(answer("/v1/messages", body).at("content").at(0).at("text"), "Hello there.");
  }
}

TEST_F(ServePeerValues, MessagesSignThoughts) {
  const json body = {{"max_tokens", 50},
                     {"stream", true},
                     {"temperature", 0},
                     {"messages", {user_says("Hi")}},
                     {"chat_template_kwargs", {{"script", "call"}}}};
  std::vector<std::string> deltas;
  for (const json& event : server_->post("/v1/messages", body).chunks()) {
    if (event.value("index", -1) == 0 && event.contains("delta"))
      deltas.push_back(event.at("delta").at("type"));
  }
  ASSERT_FALSE(deltas.empty());
  EXPECT_EQ(deltas.front(), "thinking_delta");
  EXPECT_EQ(deltas.back(), "signature_delta");
}

TEST_F(ServePeerValues, MessagesAcceptValuesOfAnthropicsServers) {
  const json blocks = {
      {{"type", "server_tool_use"}, {"id", "s"}, {"name", "web_search"}, {"input", json::object()}},
      {{"type", "web_search_tool_result"}, {"tool_use_id", "s"}, {"content", json::array()}},
      {{"type", "text"}, {"text", "Found."}}};
  const json document = {{"type", "document"},
                         {"source", {{"type", "text"}, {"media_type", "text/plain"}, {"data", "A page."}}}};
  const json body = {{"max_tokens", 5},
                     {"messages",
                      {user_says("Hi"),
                       {{"role", "assistant"}, {"content", blocks}},
                       {{"role", "user"}, {"content", {document}}}}}};
  EXPECT_TRUE(warns_of(answer("/v1/messages", body), "server_tool_use"));
}

// Some clients request thinking from all models, even those that cannot think.
TEST_F(ServeApiAlone, AsksAModelToThinkThatCannot) {
  const json body = {{"max_tokens", 3},
                     {"messages", {user_says("Hi")}},
                     {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}};
  const HttpReply reply = server().post("/v1/messages", body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(server()
                .post("/v1/chat/completions", {{"messages", {user_says("Hi")}}, {"max_thinking_tokens", 3}})
                .status,
            400);
}

}  // namespace
}  // namespace tp::test
