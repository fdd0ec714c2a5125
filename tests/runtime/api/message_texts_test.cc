// The texts of messages' blocks and parts, in the forms of all APIs.
#include "runtime/api/api_call.h"

#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Json = nlohmann::ordered_json;

Json messages_of(const std::string& body) {
  return read_messages_call(parse_body(body)).prompts.front().conversation->at("messages");
}

// Returns the text that the model reads for a user's block.
std::string text_of_block(const std::string& block) {
  return messages_of(R"({"max_tokens": 5, "messages": [{"role": "user", "content": [)" + block + "]}]}")
      .back()
      .at("content");
}

TEST(MessageTexts, BlocksThatHoldTextAreReadAsTexts) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type": "text", "text": "a"})", "a"},
      {R"({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}})", "d"},
      {R"({"type": "document", "source": {"type": "content", "content": "d"}})", "d"},
      {R"({"type": "document", "title": "T", "context": "C", "source": {"type": "content", "content": [
           {"type": "text", "text": "d"}, {"type": "text", "text": "e"}]}})",
       "T\nC\nd\ne"},
      {R"({"type": "search_result", "source": "u", "title": "t", "content": [{"type": "text", "text": "b"}]})",
       "t\nu\nb"},
      {R"({"type": "tool_reference", "tool_name": "g"})", "g"},
      {R"({"type": "compaction", "content": "so far"})", "so far"},
      {R"({"type": "compaction", "content": null}, {"type": "text", "text": "a"})", "a"},
  };
  for (const auto& [block, text] : cases) {
    EXPECT_EQ(text_of_block(block), text) << block;
    const std::string result =
        R"({"type": "tool_result", "tool_use_id": "t", "content": [)" + std::string(block) + "]}";
    EXPECT_EQ(text_of_block(result), text) << result;
  }
  for (const char* block : {R"({"type": "document", "source": {"type": "url", "url": "https://x"}})",
                            R"({"type": "document", "source": {"type": "text", "data": 5}})",
                            R"({"type": "image", "source": {}})", R"({"type": "unknown"})", "3"})
    EXPECT_THROW(text_of_block(block), RequestError) << block;
}

TEST(MessageTexts, ASummaryOfTheModelIsItsText) {
  const Json messages = messages_of(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "compaction", "content": "so far"}, {"type": "text", "text": "y"}]},
    {"role": "user", "content": "z"}]})");
  EXPECT_EQ(messages.at(1), Json::parse(R"({"role": "assistant", "content": "so far\ny"})"));
}

// Mistral's and other servers return chats with thinking in such parts.
TEST(MessageTexts, PartsWithThinkingAreThinking) {
  for (const char* part :
       {R"({"type": "thinking", "thinking": [{"type": "text", "text": "t"}], "closed": true})",
        R"({"type": "thinking", "thinking": "t", "signature": ""})", R"({"type": "reasoning", "text": "t"})",
        R"({"type": "reasoning", "reasoning": "t"})",
        R"({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "t"}]})",
        R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]})",
        R"({"type": "reasoning_text", "text": "t"})"}) {
    const std::string answer = R"({"role": "assistant", "content": [)" + std::string(part) +
                               R"(, {"type": "text", "text": "x"}]}, {"role": "user", "content": "?"})";
    const Json expected = {{"role", "assistant"}, {"content", "x"}, {"reasoning_content", "t"}};
    const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}, )" + answer + "]}";
    const ApiCall call = read_openai_call(parse_body(chat), ApiRequest::Form::chat_completion);
    EXPECT_EQ(call.prompts.front().conversation->at("messages").at(1), expected) << part;
    const ApiCall responses =
        read_responses_call(parse_body(R"({"input": [{"role": "user", "content": "hi"}, )" + answer + "]}"));
    EXPECT_EQ(responses.prompts.front().conversation->at("messages").at(1), expected) << part;
  }
}

}  // namespace
}  // namespace tp::test
