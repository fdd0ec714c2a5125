// Answers whose thinking, text and calls are parts with markers of their own.
#include "tests/runtime/chat/chat_fixture.h"
#include "tests/runtime/chat/read_messages.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

AnswerSyntax syntax_of_file(const std::string& name) {
  return syntax_of(ChatFixture::source_in(std::string(TP_TEST_DATA "/chat/") + name), kTools);
}

const Json kCall = Json::array({"get_weather", {{"city", "Bern"}}});

// "<|begin|>assistant" begins each part but the first one, which the prompt begins.
TEST(PartMarkers, OfSolarOpen) {
  const AnswerSyntax syntax = syntax_of_file("solar-open.jinja");
  const std::string thinking = "<|think|>It <may> be.<|end|><|begin|>assistant";
  EXPECT_EQ(read(syntax, thinking + "<|content|>Yes < no. <|end|>"),
            (Json{{"reasoning", "It <may> be."}, {"text", "Yes < no."}, {"calls", Json::array()}}));
  EXPECT_EQ(read(syntax, "<|content|>Yes."),
            (Json{{"reasoning", ""}, {"text", "Yes."}, {"calls", Json::array()}}));
  const std::string call =
      R"(<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>get_weather<|tool_call:args|>{"city":"Bern"}<|tool_call:end|>)";
  EXPECT_EQ(read(syntax, thinking + call + "<|calls|>"),
            (Json{{"reasoning", "It <may> be."}, {"text", ""}, {"calls", Json::array({kCall})}}));
  const std::string two = call + call.substr(std::string("<|tool_calls|>").size());
  EXPECT_EQ(read(syntax, "<|content|>Look:<|end|><|begin|>assistant" + two + "<|calls|>"),
            (Json{{"reasoning", ""}, {"text", "Look:"}, {"calls", Json::array({kCall, kCall})}}));
}

TEST(PartMarkers, OfHunyuanA13B) {
  const AnswerSyntax syntax = syntax_of("<think></think><answer></answer><|extra_0|><tool_calls>", kTools);
  EXPECT_EQ(read(syntax, "<think>\nWell.\n</think>\n<answer>\nYes.\nNo.\n</answer>"),
            (Json{{"reasoning", "Well."}, {"text", "Yes.\nNo."}, {"calls", Json::array()}}));
  EXPECT_EQ(read(syntax,
                 "<think>\nWell.\n</think>\n<answer>\n<tool_calls>[\n{\"name\": \"get_weather\", "
                 "\"arguments\": {\"city\": \"Bern\"}}\n]</tool_calls>\n</answer>"),
            (Json{{"reasoning", "Well."}, {"text", ""}, {"calls", Json::array({kCall})}}));
  // A template that only speaks about such tags.
  EXPECT_EQ(read(syntax_of("Put the result into <answer> tags.", kTools), "<answer>4</answer>"),
            (Json{{"reasoning", ""}, {"text", "<answer>4</answer>"}, {"calls", Json::array()}}));
}

TEST(PartMarkers, OfMiniCpm3) {
  const AnswerSyntax syntax =
      syntax_of("<|thought_start|><|thought_end|><|tool_call_start|><|tool_call_end|>", kTools);
  EXPECT_EQ(read(syntax,
                 "<|thought_start|>\nWell.\n<|thought_end|>\n<|tool_call_start|>\n```python\n"
                 "get_weather(city=\"Bern\")\nget_weather(city=\"Bern\")\n```\n<|tool_call_end|>\n"),
            (Json{{"reasoning", "Well."}, {"text", ""}, {"calls", Json::array({kCall, kCall})}}));
  EXPECT_EQ(read(syntax, "<|thought_start|>\nWell.\n<|thought_end|>\nYes."),
            (Json{{"reasoning", "Well."}, {"text", "Yes."}, {"calls", Json::array()}}));
}

}  // namespace
}  // namespace tp::test
