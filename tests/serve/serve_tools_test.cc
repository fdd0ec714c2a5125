// Tools and thinking over the server's three APIs, with a model that follows scripts.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/serve/tool_requests.h"

#include <map>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

class ServeTools : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(, ServeTools, testing::Values(kNoMpirun, 3), [](const auto& ranks) {
  return ranks.param == kNoMpirun ? std::string("WithoutMpirun") : std::to_string(ranks.param) + "Ranks";
});

TEST_P(ServeTools, CallsThinkingAndTextAreDividedWholeAndStreamed) {
  const ScriptedModel model;
  ServedProgram server(GetParam(), {"--model", model.folder.path().string()});
  const HttpReply reply = server.post("/v1/chat/completions", chat("call"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json choice = reply.json().at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  const json message = choice.at("message");
  EXPECT_EQ(message.at("reasoning_content"), "I should look it up.");
  EXPECT_EQ(message.at("content"), "Let me see.");
  ASSERT_EQ(message.at("tool_calls").size(), 1U);
  const json call = message.at("tool_calls").at(0);
  EXPECT_EQ(call.at("function").at("name"), "get_weather");
  EXPECT_EQ(json::parse(call.at("function").at("arguments").get<std::string>()),
            (json{{"city", "Oslo"}, {"days", 2}}));
  EXPECT_EQ(call.at("id").get<std::string>().size(), 9U);
  EXPECT_EQ(reply.json().at("usage").at("completion_tokens_details").at("reasoning_tokens"), 6);

  const HttpReply stream = server.post("/v1/chat/completions", chat("call", {{"stream", true}}));
  const json streamed = streamed_message(stream);
  EXPECT_EQ(streamed.at("reasoning_content"), message.at("reasoning_content"));
  EXPECT_EQ(streamed.at("content"), message.at("content"));
  ASSERT_EQ(streamed.at("tool_calls").size(), 1U);
  EXPECT_EQ(streamed.at("tool_calls").at(0).at("function"), call.at("function"));
  EXPECT_EQ(streamed.at("finish_reason"), "tool_calls");
  std::size_t parts = 0;
  for (const json& chunk : stream.chunks())
    parts += chunk.at("choices").at(0).at("delta").contains("tool_calls") ? 1 : 0;
  EXPECT_GE(parts, 4U) << "arguments come as they are generated";
  server.end();
}

class ServeToolsAlone : public OneServer<ScriptedModel> {
 protected:
  static json message_of(const json& body) {
    const HttpReply reply = server_->post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json().at("choices").at(0).at("message");
  }
};

TEST_F(ServeToolsAlone, SeveralCallsAreOneMessageByDefault) {
  const json calls = message_of(chat("two")).at("tool_calls");
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[1].at("function"), (json{{"name", "get_time"}, {"arguments", "{}"}}));
  EXPECT_NE(calls[0].at("id"), calls[1].at("id"));
  EXPECT_EQ(streamed_message(server_->post("/v1/chat/completions", chat("two", {{"stream", true}})))
                .at("tool_calls")
                .size(),
            2U);
  EXPECT_EQ(message_of(chat("two", {{"parallel_tool_calls", false}})).at("tool_calls").size(), 1U);
}

TEST_F(ServeToolsAlone, KeepsMalformedCallsAsText) {
  const std::string broken =
      "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\" Oslo}}</tool_call>";
  const HttpReply reply = server_->post("/v1/chat/completions", chat("broken"));
  EXPECT_EQ(reply.json().at("choices").at(0).at("message").at("content"), broken);
  EXPECT_EQ(reply.json().at("choices").at(0).at("finish_reason"), "stop");
  // If the request does not contain the tool, or contains no tools, the text is not a call.
  EXPECT_FALSE(message_of(chat("two", {{"tools", {function_tool("other")}}})).contains("tool_calls"));
  EXPECT_FALSE(message_of(chat("two", {{"tools", nullptr}})).contains("tool_calls"));
  EXPECT_FALSE(message_of(chat("two", {{"tool_choice", "none"}})).contains("tool_calls"));
  EXPECT_EQ(message_of(chat("plain")), (json{{"role", "assistant"}, {"content", "Hello there."}}));
}

TEST_F(ServeToolsAlone, AStreamEqualsTheWholeAnswerForAnyText) {
  const auto shown = [](const json& message) {
    json calls = json::array();
    for (const json& call : message.value("tool_calls", json::array())) calls.push_back(call.at("function"));
    const json text = message.value("content", json());
    return json{text.is_null() ? "" : text, message.value("reasoning_content", ""), calls};
  };
  std::map<std::string, json> answers;
  for (const auto& [script, texts] : tool_scripts()) {
    for (const int tokens : {3, 100}) {
      const json more = {{"max_tokens", tokens}, {"stream", true}};
      const json stream = streamed_message(server_->post("/v1/chat/completions", chat(script, more)));
      const json whole = server_->post("/v1/chat/completions", chat(script, {{"max_tokens", tokens}}))
                             .json()
                             .at("choices")
                             .at(0);
      EXPECT_EQ(shown(stream), shown(whole.at("message"))) << script;
      EXPECT_EQ(stream.at("finish_reason"), whole.at("finish_reason")) << script;
      answers[script] = shown(whole.at("message"));
    }
  }
  const auto call = [](const char* name, const char* arguments) {
    return json{{{"name", name}, {"arguments", arguments}}};
  };
  EXPECT_EQ(answers.at("bare"), (json{"", "", call("get_time", "{}")}));
  EXPECT_EQ(answers.at("raw"), (json{"", "", call("get_weather", R"({"city": "New\n\tYork"})")}));
  EXPECT_EQ(answers.at("tags"), (json{"", "", call("get_weather", R"({"city": "10115"})")}));
  EXPECT_EQ(answers.at("late"), (json{"AB", "", call("get_weather", R"({"city": 1 2}})")}));
}

TEST_F(ServeToolsAlone, ThinkingIsLimitedOnRequest) {
  const json message = message_of(chat("call", {{"max_thinking_tokens", 2}}));
  EXPECT_EQ(message.at("reasoning_content"), "I should");
  EXPECT_EQ(message.at("content"), "Let me see.");
  EXPECT_EQ(message.at("tool_calls").size(), 1U);
  EXPECT_FALSE(message_of(chat("call", {{"max_thinking_tokens", 0}})).contains("reasoning_content"));
}

TEST_F(ServeToolsAlone, ResultsOfCallsAreRenderedByTheTemplate) {
  const json call = {{"id", "abcdefghi"},
                     {"type", "function"},
                     {"function", {{"name", "get_weather"}, {"arguments", "{\"city\": \"Oslo\"}"}}}};
  const json messages = {{{"role", "user"}, {"content", "The weather?"}},
                         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                         {{"role", "tool"}, {"tool_call_id", "abcdefghi"}, {"content", "sunny"}}};
  const std::string prompt =
      server_->post("/apply-template", chat("plain", {{"messages", messages}})).json().at("prompt");
  EXPECT_CONTAINS(prompt, R"(<tool_call>{"arguments": {"city": "Oslo"}, "name": "get_weather"}</tool_call>)");
  EXPECT_CONTAINS(prompt, "tool: sunny#plain");
}

TEST_F(ServeToolsAlone, ResponsesHaveItemsOfEachKind) {
  json body = {
      {"input", "The weather?"},
      {"instructions", "Be short."},
      {"tools", {{{"type", "function"}, {"name", "get_weather"}, {"parameters", {{"type", "object"}}}}}},
      {"metadata", {{"a", "b"}}},
      {"temperature", 0},
      {"chat_template_kwargs", {{"script", "call"}}}};
  const json whole = server_->post("/v1/responses", body).json();
  EXPECT_EQ(whole.at("instructions"), "Be short.");
  EXPECT_EQ(whole.at("tools"), body.at("tools"));
  EXPECT_EQ(whole.at("metadata"), body.at("metadata"));
  ASSERT_EQ(whole.at("output").size(), 3U) << whole;
  EXPECT_EQ(whole.at("output")[0].at("type"), "reasoning");
  EXPECT_EQ(whole.at("output")[0].at("content")[0].at("text"), "I should look it up.");
  EXPECT_EQ(whole.at("output")[1].at("content")[0].at("text"), "Let me see.");
  EXPECT_EQ(whole.at("output")[2].at("type"), "function_call");
  EXPECT_EQ(whole.at("output")[2].at("name"), "get_weather");
  EXPECT_EQ(whole.at("usage").at("output_tokens_details").at("reasoning_tokens"), 6);

  body["stream"] = true;
  const HttpReply stream = server_->post("/v1/responses", body);
  std::string arguments;
  json last;
  for (const json& event : stream.chunks()) {
    if (event.at("type") == "response.function_call_arguments.delta")
      arguments += event.at("delta").get<std::string>();
    last = event;
  }
  EXPECT_EQ(arguments, whole.at("output")[2].at("arguments"));
  EXPECT_EQ(last.at("type"), "response.completed");
  ASSERT_EQ(last.at("response").at("output").size(), 3U);
  EXPECT_EQ(last.at("response").at("output")[2].at("arguments"), arguments);
}

TEST_F(ServeToolsAlone, AnthropicsMessagesHaveBlocksOfEachKind) {
  json body = {{"messages", {{{"role", "user"}, {"content", "#call"}}}},
               {"max_tokens", 100},
               {"tools", {{{"name", "get_weather"}, {"input_schema", {{"type", "object"}}}}}},
               {"temperature", 0},
               {"chat_template_kwargs", {{"script", "call"}}}};
  const json whole = server_->post("/v1/messages", body).json();
  ASSERT_EQ(whole.at("content").size(), 3U) << whole;
  EXPECT_EQ(whole.at("content")[0].at("type"), "thinking");
  EXPECT_EQ(whole.at("content")[0].at("thinking"), "I should look it up.");
  EXPECT_EQ(whole.at("content")[1].at("text"), "Let me see.");
  EXPECT_EQ(whole.at("content")[2].at("type"), "tool_use");
  EXPECT_EQ(whole.at("content")[2].at("input"), (json{{"city", "Oslo"}, {"days", 2}}));
  EXPECT_EQ(whole.at("stop_reason"), "tool_use");
  body["stream"] = true;
  std::string arguments;
  std::vector<std::string> blocks;
  for (const json& event : server_->post("/v1/messages", body).chunks()) {
    if (event.at("type") == "content_block_start") blocks.push_back(event.at("content_block").at("type"));
    if (event.at("type") == "content_block_delta") arguments += event.at("delta").value("partial_json", "");
  }
  EXPECT_EQ(blocks, (std::vector<std::string>{"thinking", "text", "tool_use"}));
  EXPECT_EQ(json::parse(arguments), (json{{"city", "Oslo"}, {"days", 2}}));
  body.erase("stream");
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 2}};
  EXPECT_EQ(server_->post("/v1/messages", body).json().at("content")[0].at("thinking"), "I should");
}

TEST_F(ServeToolsAlone, TheExampleOfTheGuideIsAnswered) {
  const std::string command = doc_example("runtime/serve/README.md", "## Tools");
  const std::size_t begin = command.find("-d '") + 4;
  json body = json::parse(command.substr(begin, command.find('\'', begin) - begin));
  body["chat_template_kwargs"] = {{"script", "call"}};
  const json message = message_of(body);
  EXPECT_EQ(message.at("tool_calls").at(0).at("function").at("name"), "get_weather");
}

TEST(ChatTools, TheExampleOfTheGuideCallsATool) {
  const ScriptedModel model;
  std::string commands = doc_example("launch/README.md", "### Thinking and calls");
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(commands.find(from), std::string::npos) << commands;
    commands.replace(commands.find(from), from.size(), to);
  };
  replace("{\"messages\"", "{\"script\": \"call\", \"messages\"");
  replace("--model DIR", "--greedy --model " + model.folder.path().string());
  const std::string program = command_line(kNoMpirun, {}).front();
  Process shell({"bash", "-c", "set -e\ntp-infer() { \"" + program + "\" \"$@\"; }\n" + commands},
                {.input = "The weather?\n", .folder = model.folder.path()});
  const Finished finished = shell.finish(120);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "Let me see.\nget_weather({\"city\": \"Oslo\", \"days\": 2})\n");
}

// A terminal shows thinking dimmed, and calls in readable form.
TEST(ChatTools, ATerminalShowsThinkingDimmedAndCallsAsCalls) {
  const ScriptedModel model;
  const json conversation = {
      {"messages", json::array()}, {"tools", {function_tool("get_weather")}}, {"script", "call"}};
  const std::string file = model.folder.write("conversation.json", conversation.dump());
  const Arguments arguments = {"chat", "--model", model.folder.path().string(), "--greedy", "--load", file};
  Process process(
      command_line(kNoMpirun, arguments),
      {.keep_input_open = true, .on_terminal = true, .variables = {"TERM=xterm", "LC_ALL=C", "NO_COLOR="}});
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return out.ends_with("> "); }));
  process.write_input("The weather?\n");
  std::string seen;
  ASSERT_TRUE(process.wait_for_output([&](const std::string& out) {
    seen = out;
    return out.find("what get_weather returns") != out.npos && out.ends_with("> ");
  })) << seen;
  EXPECT_CONTAINS(seen, "\x1b[0;2mI should look it up.\x1b[0m");
  EXPECT_CONTAINS(seen, "Let me see.");
  EXPECT_CONTAINS(seen, "get_weather({\"city\": \"Oslo\", \"days\": 2})");
  EXPECT_EQ(seen.find("tool_call"), std::string::npos) << seen;
  process.write_input("\x04");
  EXPECT_EQ(process.finish().status, 0);
}

}  // namespace
}  // namespace tp::test
