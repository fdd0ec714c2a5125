// Custom tools, whose input is a text in a given format, over OpenAI's two APIs.
#include "tests/expect_contains.h"
#include "tests/serve/tool_requests.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

const std::string kPatch = "*** Begin Patch\n*** Add File: a.txt\n+tea \"x\" \\n\n*** End Patch";
constexpr const char* kPatchGrammar =
    "start: begin line+ end\nbegin: \"*** Begin Patch\" LF \"*** Add File: \" /(.+)/ LF\n"
    "line: \"+\" /(.*)/ LF -> line\nend: \"*** End Patch\" LF?\n%import common.LF\n";

// The model writes the patch inside JSON, in several tokens. `free` is a text without a format, and `loose`
// does not match the format of its tests.
Scripts scripts() {
  return {{"plain", {"Done."}},
          {"patch",
           {"<think>", "A file.", "</think>", "<tool_call>", "{\"name\": \"apply_patch\", \"arguments\": {",
            "\"input\": \"", "*** Begin Patch\\n*** Add File: ", "a.txt", "\\n+tea", " \\\"x\\", "\" \\\\",
            "n\\n*** End Patch", "\"}}", "</tool_call>"}},
          {"loose", {"<think>No.", "</think>\n\n"}},
          {"free", {"{\"name\": \"note\", \"arg", "uments\": {\"input\": \"a \\\"", "b\\\" {\"}}"}}};
}

json custom_tool(const std::string& name, const json& format) {
  return {{"type", "custom"}, {"name", name}, {"description", "d"}, {"format", format}};
}
json lark_format(const std::string& grammar) {
  return {{"type", "grammar"}, {"syntax", "lark"}, {"definition", grammar}};
}
// Converts a tool to the form of chat completions, with its members nested under "custom".
json chat_tool(json tool) {
  tool.erase("type");
  if (json& format = tool["format"]; format.is_object() && format.at("type") == "grammar") {
    format.erase("type");
    format = {{"type", "grammar"}, {"grammar", format}};
  }
  return {{"type", "custom"}, {"custom", tool}};
}

struct CustomToolModel : ScriptedModel {
  CustomToolModel() : ScriptedModel(scripts()) {}
};

class ServeCustomTools : public OneServer<CustomToolModel> {
 protected:
  static HttpReply answer(const char* script, const json& tool, const json& more = json::object()) {
    json body = {{"input", "q"},
                 {"max_output_tokens", 60},
                 {"temperature", 0},
                 {"tools", {tool}},
                 {"chat_template_kwargs", {{"script", script}}}};
    body.update(more);
    return server_->post("/v1/responses", body);
  }
  static json call_in(const HttpReply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json().at("output").back();
  }
  static HttpReply chat_answer(const char* script, const json& tool, const json& more = json::object()) {
    json body = chat(script, {{"max_tokens", 60}, {"tools", {chat_tool(tool)}}});
    body.update(more);
    return server_->post("/v1/chat/completions", body);
  }
};

TEST_F(ServeCustomTools, ResponsesContainTheTextWholeAndStreamed) {
  const json tool = custom_tool("apply_patch", lark_format(kPatchGrammar));
  const json call = call_in(answer("patch", tool));
  EXPECT_EQ(call.at("type"), "custom_tool_call");
  EXPECT_EQ(call.at("name"), "apply_patch");
  EXPECT_EQ(call.at("input"), kPatch);
  EXPECT_EQ(call.at("status"), "completed");
  EXPECT_FALSE(call.contains("arguments"));
  EXPECT_EQ(call.at("id").get<std::string>().substr(0, 4), "ctc_");

  std::vector<std::string> deltas;
  std::vector<std::string> types;
  json done;
  for (const json& event : answer("patch", tool, {{"stream", true}}).chunks()) {
    const std::string type = event.at("type");
    if (type.find("custom_tool_call") != type.npos && (types.empty() || types.back() != type))
      types.push_back(type);
    if (type == "response.custom_tool_call_input.delta") deltas.push_back(event.at("delta"));
    if (type == "response.custom_tool_call_input.done") {
      EXPECT_EQ(event.at("input"), kPatch);
      EXPECT_TRUE(event.contains("item_id") && event.contains("output_index"));
    }
    if (type == "response.completed") done = event.at("response");
  }
  EXPECT_EQ(types, (std::vector<std::string>{"response.custom_tool_call_input.delta",
                                             "response.custom_tool_call_input.done"}));
  std::string text;
  for (const std::string& delta : deltas) text += delta;
  EXPECT_EQ(text, kPatch);
  EXPECT_GE(deltas.size(), 4U) << "the text comes as it is generated";
  EXPECT_EQ(done.at("output").back().at("input"), kPatch);
}

TEST_F(ServeCustomTools, ChatsContainTheTextWholeAndStreamed) {
  const json tool = custom_tool("apply_patch", lark_format(kPatchGrammar));
  const HttpReply reply = chat_answer("patch", tool);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json choice = reply.json().at("choices").at(0);
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  const json call = choice.at("message").at("tool_calls").at(0);
  EXPECT_EQ(call.at("type"), "custom");
  EXPECT_EQ(call.at("custom"), (json{{"name", "apply_patch"}, {"input", kPatch}}));
  EXPECT_FALSE(call.contains("function"));

  std::string text;
  for (const json& chunk : chat_answer("patch", tool, {{"stream", true}}).chunks()) {
    for (const json& part : chunk.at("choices").at(0).at("delta").value("tool_calls", json::array())) {
      EXPECT_EQ(part.at("index"), 0);
      text += part.at("custom").at("input").get<std::string>();
    }
  }
  EXPECT_EQ(text, kPatch);
}

TEST_F(ServeCustomTools, TheFormatConstrainsTheText) {
  const auto input_of = [&](const json& format) {
    const json call = call_in(answer("loose", custom_tool("apply_patch", format),
                                     {{"tool_choice", "required"}, {"parallel_tool_calls", false}}));
    EXPECT_EQ(call.at("type"), "custom_tool_call") << call;
    return call.at("input").get<std::string>();
  };
  EXPECT_EQ(input_of(lark_format("start: \"x\"~3 [\"\\n\"]")).substr(0, 3), "xxx");
  const std::string digits =
      input_of({{"type", "grammar"}, {"syntax", "regex"}, {"definition", "[7-9]{2,4}"}});
  EXPECT_TRUE(digits.size() >= 2 && digits.find_first_not_of("789") == digits.npos) << digits;
}

TEST_F(ServeCustomTools, ATextWithoutAFormatIsFree) {
  for (const json& format : {json(), json{{"type", "text"}}}) {
    const json tool = custom_tool("note", format);
    EXPECT_EQ(call_in(answer("free", tool)).at("input"), "a \"b\" {");
    json choice = {{"type", "custom"}, {"name", "note"}};
    EXPECT_EQ(call_in(answer("loose", tool, {{"tool_choice", choice}})).at("type"), "custom_tool_call");
    choice = {{"type", "custom"}, {"custom", {{"name", "note"}}}};
    const json message =
        chat_answer("loose", tool, {{"tool_choice", choice}}).json().at("choices")[0].at("message");
    EXPECT_EQ(message.at("tool_calls")[0].at("custom").at("name"), "note");
  }
}

TEST_F(ServeCustomTools, TheModelSeesFunctionsOfOneText) {
  const json tool = custom_tool("apply_patch", lark_format("start: \"x\""));
  const json custom = {{"name", "apply_patch"}, {"input", kPatch}};
  const json messages = {
      {{"role", "user"}, {"content", "q"}},
      {{"role", "assistant"}, {"tool_calls", {{{"id", "c"}, {"type", "custom"}, {"custom", custom}}}}},
      {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "Success"}}};
  const std::string prompt =
      server_->post("/apply-template", chat("plain", {{"tools", {chat_tool(tool)}}, {"messages", messages}}))
          .json()
          .at("prompt");
  EXPECT_CONTAINS(prompt, R"("required": ["input"])");
  EXPECT_CONTAINS(prompt, "this Lark grammar:\\nstart: \\\"x\\\"");
  EXPECT_CONTAINS(prompt, R"("input": "*** Begin Patch\n*** Add File)");

  const json items = {
      {{"role", "user"}, {"content", "q"}},
      {{"type", "custom_tool_call"}, {"call_id", "c"}, {"name", "apply_patch"}, {"input", kPatch}},
      {{"type", "custom_tool_call_output"}, {"call_id", "c"}, {"output", "Success"}}};
  const json last = call_in(answer("plain", tool, {{"input", items}, {"tool_choice", "none"}}));
  EXPECT_EQ(last.at("content")[0].at("text"), "Done.");
}

TEST_F(ServeCustomTools, NamesUnreadableFormats) {
  const auto refusal = [&](const json& tool) -> std::string {
    const HttpReply reply = answer("patch", tool);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json().at("error").at("message");
  };
  EXPECT_EQ(refusal(custom_tool("f", lark_format("start: \"a\"\n%ignore \" \""))),
            "`tools`: the format of `f`: the Lark grammar: `%ignore` at offset 11 is not supported; write it "
            "without");
  EXPECT_EQ(refusal(custom_tool("f", {{"type", "grammar"}, {"syntax", "regex"}, {"definition", "("}}))
                .find("`tools`: the format of `f`: the regular expression"),
            0U);
  EXPECT_EQ(refusal(custom_tool("f", {{"type", "grammar"}, {"syntax", "peg"}, {"definition", "a"}}))
                .find("`tools`: expected as `format` of `f` {\"type\": \"text\"} or"),
            0U);
  EXPECT_EQ(
      refusal({{"type", "custom"}, {"format", nullptr}}).find("`tools`: expected {\"type\": \"custom\""), 0U);
}

}  // namespace
}  // namespace tp::test
