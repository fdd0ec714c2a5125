// Chat templates of published models: rendered calls are read back.
#include "runtime/chat/message_reader.h"
#include "tests/expect_contains.h"
#include "tests/runtime/chat/chat_fixture.h"
#include "tests/runtime/chat/read_messages.h"

#include <random>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

Json calls_of(const Message& message) {
  Json calls = Json::array();
  for (const ToolCall& call : message.calls) calls.push_back({call.name, Json::parse(call.arguments)});
  return calls;
}

TEST(ChatFixtures, RenderedCallsAreReadBackFromAnyPieces) {
  std::size_t native = 0;
  std::mt19937 random(3);
  for (const auto& file : chat_fixtures()) {
    SCOPED_TRACE(file.filename().string());
    const ChatFixture fixture(file);
    if (fixture.source.find("tool") != std::string::npos) ++native;
    // Llama 3.1's template allows a single call, GLM-4's one message per call, and DeepSeek's ends after two
    // calls.
    for (const Json& call : kCalls) {
      const Json expected = Json::array({call});
      const std::string answer = answer_of(fixture, expected);
      AnswerSyntax syntax{.is_plain = false, .syntax = fixture.rendering.syntax(), .tools = ToolSet(kTools)};
      // GLM-4.7's prompt begins thinking, so its answers must end it first.
      const std::string& end = syntax.syntax.thinking.end;
      syntax.begins_thinking = !end.empty() && answer.starts_with(end);
      const Message whole = read_message(syntax, answer);
      EXPECT_EQ(calls_of(whole), expected) << answer;
      EXPECT_EQ(whole.text, "") << answer;
      for (const std::size_t longest : {1, 2, 7, 30}) {
        Message message;
        const auto reader = make_message_reader(syntax);
        for (std::size_t at = 0, size = 0; at < answer.size(); at += size) {
          size = 1 + random() % longest;
          for (MessagePiece piece : reader->push(std::string_view(answer).substr(at, size)))
            message.add(piece);
        }
        for (MessagePiece piece : reader->finish(Ending::complete)) message.add(piece);
        EXPECT_EQ(calls_of(message), expected) << answer;
        EXPECT_EQ(message.text, "");
      }
    }
  }
  EXPECT_GE(native, has_published_templates() ? 14U : 6U);
}

// Only these fixtures allow several calls in one message.
TEST(ChatFixtures, SeveralCallsOfAMessageAreReadBack) {
  for (const char* name : {"qwen2.5", "mistral-v0.3", "lc-mistral-nemo-instruct-2407",
                           "lc-mistral-large-instruct-2407", "lc-granite-3.0-8b-instruct", "gemma2"}) {
    const std::filesystem::path file =
        std::filesystem::path(TP_SHARED_FIXTURES) / "chat" / (std::string(name) + ".json");
    if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
    const ChatFixture fixture(file);
    const AnswerSyntax syntax{
        .is_plain = false, .syntax = fixture.rendering.syntax(), .tools = ToolSet(kTools)};
    const std::string answer = answer_of(fixture, kCalls);
    EXPECT_EQ(calls_of(read_message(syntax, answer)), kCalls) << name << ": " << answer;
  }
}

TEST(ChatFixtures, Qwen35ThinksFromItsPromptOnAndCallsWithTags) {
  const ChatFixture fixture(std::filesystem::path(TP_TEST_DATA) / "chat" / "qwen3.5.jinja");
  const ThinkingMarkers& thinking = fixture.rendering.syntax().thinking;
  Json input = fixture_conversation(Json::array({user()}));
  input["add_generation_prompt"] = true;
  EXPECT_TRUE(thinking.are_begun_by(fixture.chat.render(input).text()));
  input["enable_thinking"] = false;
  EXPECT_FALSE(thinking.are_begun_by(fixture.chat.render(input).text()));
  const AnswerSyntax syntax{.is_plain = false,
                            .syntax = fixture.rendering.syntax(),
                            .begins_thinking = true,
                            .tools = ToolSet(kTools)};
  EXPECT_EQ(read(syntax,
                 "I call <function=note>.\n</think>\n\nLet me see.\n\n<tool_call>\n<function=get_weather>\n"
                 "<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n"
                 "</tool_call>"),
            message("Let me see.", only("get_weather", {{"city", "Oslo"}, {"days", 2}}),
                    "I call <function=note>."));
}

// A model always learns about its tools and about results of calls, whatever its template supports.
TEST(ChatFixtures, EveryTemplateRendersToolsCallsAndResults) {
  for (const auto& file : chat_fixtures()) {
    SCOPED_TRACE(file.filename().string());
    const ChatFixture fixture(file);
    EXPECT_CONTAINS(fixture.render(Json::array({user()}), true), "get_weather");
    const Json call = Json::array({kCalls[0]});
    const Json result = {
        {"role", "tool"}, {"name", "get_weather"}, {"tool_call_id", "abcdefghi"}, {"content", "sunny"}};
    const std::string text = fixture.render(Json::array({user(), assistant_with(call), result}), true);
    EXPECT_CONTAINS(text, "rich");
    EXPECT_CONTAINS(text, "sunny");
  }
}

}  // namespace
}  // namespace tp::test
