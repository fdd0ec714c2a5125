// Calls of tools that take a text instead of arguments.
#include "tests/runtime/chat/read_messages.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const Json kTextTools = Json::parse(R"([
  {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties":
    {"input": {"type": "string"}}, "required": ["input"]}}},
  {"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}])");

AnswerSyntax text_syntax(const std::string& sign) {
  AnswerSyntax syntax = syntax_of(sign, kTextTools);
  syntax.text_tools = {"write"};
  return syntax;
}

// Returns the call's text, which must be the same for all pieces.
std::string text_in(const AnswerSyntax& syntax, const std::string& answer, Ending ending = Ending::complete) {
  const Message whole = read_message(syntax, answer, ending);
  const Message bytewise = read_in_pieces(
      syntax, answer, [] { return 1; }, ending);
  if (whole.calls.size() != 1 || bytewise.calls.size() != 1) return "no call: " + whole.text;
  EXPECT_EQ(bytewise.calls[0].arguments, whole.calls[0].arguments);
  EXPECT_TRUE(whole.calls[0].takes_text && whole.blocks.back().takes_text);
  return whole.calls[0].arguments;
}

TEST(TextCalls, ContainTheTextOfTheirOnlyParameter) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"input": "a\n\"b\" \\ \/"})", "a\n\"b\" \\ /"},
      {R"({ "input" : "caf\u00e9 \ud83d\ude00 ☃" })", "caf\xc3\xa9 \xf0\x9f\x98\x80 ☃"},
      {R"({"input": ""})", ""},
      {R"({"input": "first", "more": "other"})", "first"},
      {R"({"more": {"input": "inner"}, "input": "outer"})", "outer"},
      // Without the parameter, the arguments themselves are the text.
      {R"({"patch": "x"})", R"({"patch": "x"})"},
      {R"({"input": ["x"]})", R"({"input": ["x"]})"},
      {"{}", "{}"},
  };
  for (const auto& [arguments, text] : cases) {
    const std::string call = R"({"name": "write", "arguments": )" + std::string(arguments) + "}";
    EXPECT_EQ(text_in(text_syntax("<tool_call>"), "<tool_call>\n" + call + "\n</tool_call>"), text)
        << arguments;
  }
}

TEST(TextCalls, AreReadInOtherNotations) {
  EXPECT_EQ(
      text_in(
          text_syntax("<tool_call>"),
          "<tool_call>\n<function=write>\n<parameter=input>\n{\"a\": \"b\"}\nc\n</parameter>\n</function>\n"
          "</tool_call>"),
      "{\"a\": \"b\"}\nc");
  EXPECT_EQ(text_in(text_syntax("<|channel|>"),
                    "<|channel|>commentary to=functions.write<|message|>{\"input\": \"a\\tb\"}<|call|>"),
            "a\tb");
}

TEST(TextCalls, ContainTheTextSoFarIfTheyAreCut) {
  const std::string begin = R"(<tool_call>{"name": "write", "arguments": {"input": "a\n)";
  for (const auto& [rest, text] : {std::pair("b", "a\nb"), {"b\\", "a\nb"}, {"b\\ud83d", "a\nb"}}) {
    const AnswerSyntax syntax = text_syntax("<tool_call>");
    EXPECT_EQ(text_in(syntax, begin + rest, Ending::cut), text);
    EXPECT_FALSE(read_message(syntax, begin + rest, Ending::cut).calls[0].is_complete);
  }
}

TEST(TextCalls, LeaveOtherCallsUnchanged) {
  const Message message = read_message(
      text_syntax("<tool_call>"),
      R"(<tool_call>{"name": "note", "arguments": {"input": "x"}}</tool_call><tool_call>{"name": "write", "arguments": {"input": "y"}}</tool_call>)");
  ASSERT_EQ(message.calls.size(), 2U);
  EXPECT_EQ(message.calls[0].arguments, R"({"input": "x"})");
  EXPECT_FALSE(message.calls[0].takes_text);
  EXPECT_EQ(message.calls[1].arguments, "y");
}

}  // namespace
}  // namespace tp::test
