// The public interface for conversations: tp/chat.h.
#include "tp/chat.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tp/error.h"
#include "tp/run.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kQwen = TP_TEST_DATA "/chat/qwen3.5.jinja";

constexpr const char* kWithTools = R"({"messages": [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "Pick a number."}]},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "pick", "arguments": "{\"number\": 1}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "too small"}],
  "tools": [{"type": "function", "function": {"name": "pick", "parameters":
    {"type": "object", "properties": {"number": {"enum": [1, 2]}}, "required": ["number"]}}}]})";

constexpr std::string_view kAnswer =
    "It was too small.\n</think>\n\nThen 2.\n\n<tool_call>\n<function=pick>\n<parameter=number>\n2\n"
    "</parameter>\n</function>\n</tool_call>";

// Rank 0 works with an engine for the demo model.
void with_engine(const std::function<void(Engine& engine)>& work) {
  const int status = run(test::world(), {.model = TP_DEMO_MODEL, .threads = 1}, [&](Engine& engine) {
    work(engine);
    return 0;
  });
  EXPECT_EQ(status, 0);
}

void expect_the_answer(const Message& message) {
  EXPECT_EQ(message.reasoning, "It was too small.");
  EXPECT_EQ(message.text, "Then 2.");
  ASSERT_EQ(message.calls.size(), 1U);
  EXPECT_EQ(message.calls[0].name, "pick");
  EXPECT_EQ(nlohmann::json::parse(message.calls[0].arguments), nlohmann::json({{"number", 2}}));
  EXPECT_TRUE(message.calls[0].is_complete);
  EXPECT_FALSE(message.calls[0].id.empty());
}

TEST(LibraryChat, RendersMessagesWithTheModelsTemplate) {
  with_engine([](Engine& engine) {
    const Chat chat(engine, TP_DEMO_MODEL);
    const ChatTurn turn =
        chat.turn({{"system", "Be kind."}, {"user", "Hi<|end|>"}}, {.max_tokens = 9, .stop_token_ids = {77}});
    EXPECT_EQ(turn.prompt.text(), "<|bos|><|system|>Be kind.<|end|><|user|>Hi<|end|><|end|><|assistant|>");
    const TokenId end = *engine.find_token("<|end|>");
    EXPECT_EQ(std::ranges::count(turn.request.prompt, end), 2) << "a user cannot write control tokens";
    EXPECT_EQ(engine.encode(turn.prompt), turn.request.prompt);
    const std::vector<TokenId> stops = {77, *engine.find_token("<|eos|>"), end};
    EXPECT_EQ(turn.request.stop_token_ids, stops);
    EXPECT_EQ(turn.request.max_tokens, 9);
  });
}

TEST(LibraryChat, ReadsTheEnginesAnswerWhileItIsGenerated) {
  with_engine([](Engine& engine) {
    const Chat chat(engine, TP_DEMO_MODEL);
    const ChatTurn turn = chat.turn({{"user", "Hello"}}, {.sampling = {.temperature = 0}, .max_tokens = 60});
    AnswerReader answer = turn.reader();
    std::string raw;
    std::string pieces;
    std::size_t reads = 0;
    engine.run(turn.request, [&](const Event& event) {
      if (const auto* token = std::get_if<TokenEvent>(&event)) raw += token->text;
      for (const MessagePiece& piece : answer.read(event)) {
        pieces += piece.text;
        ++reads;
      }
    });
    EXPECT_GT(reads, 2U) << raw;
    EXPECT_FALSE(pieces.empty());
    EXPECT_EQ(answer.message().text, pieces);
    EXPECT_EQ(turn.read(raw).text, pieces);
  });
}

TEST(LibraryChat, ReadsThinkingTextAndCalls) {
  with_engine([](Engine& engine) {
    const Chat chat(engine, TP_DEMO_MODEL, kQwen);
    const ChatTurn turn = chat.turn_from_json(kWithTools);
    EXPECT_CONTAINS(turn.prompt.text(), "<|im_start|>system\nBe kind.");
    EXPECT_CONTAINS(turn.prompt.text(), "<parameter=number>\n1\n");
    EXPECT_CONTAINS(turn.prompt.text(), "<tool_response>\ntoo small\n");
    EXPECT_TRUE(turn.prompt.text().ends_with("<think>\n"));
    expect_the_answer(turn.read(kAnswer));

    AnswerReader reader = turn.reader();
    std::string id;
    const auto find_id = [&](const MessagePieces& pieces) {
      for (const MessagePiece& piece : pieces)
        if (piece.kind == MessagePiece::Kind::call) id = piece.id;
    };
    for (const char letter : kAnswer) find_id(reader.push({&letter, 1}));
    find_id(reader.finish());
    expect_the_answer(reader.message());
    EXPECT_EQ(reader.message().calls.at(0).id, id);
  });
}

TEST(LibraryChat, AnEventWithAFinishReasonEndsTheMessage) {
  with_engine([](Engine& engine) {
    const ChatTurn turn = Chat(engine, TP_DEMO_MODEL, kQwen).turn_from_json(kWithTools);
    for (const auto& [reason, calls] :
         {std::pair(FinishReason::stop, 1), std::pair(FinishReason::length, 0)}) {
      AnswerReader reader = turn.reader();
      TokenEvent event;
      event.text = std::string(kAnswer.substr(0, kAnswer.rfind("</function>")));
      event.finish_reason = reason;
      reader.read(event);
      const std::vector<ToolCall>& found = reader.message().calls;
      EXPECT_EQ(std::ranges::count_if(found, &ToolCall::is_complete), calls) << name_of(reason);
    }
  });
}

TEST(LibraryChat, ACallCanBeRequired) {
  with_engine([](Engine& engine) {
    const Chat chat(engine, TP_DEMO_MODEL, kQwen);
    nlohmann::json conversation = nlohmann::json::parse(kWithTools);
    conversation["enable_thinking"] = false;
    const Request settings{.sampling = {.temperature = 0}, .max_tokens = 200};
    const ChatTurn turn =
        chat.turn_from_json(conversation.dump(), settings, {.required = true, .has_one_call = true});
    AnswerReader answer = turn.reader();
    engine.run(turn.request, [&](const Event& event) { answer.read(event); });
    ASSERT_EQ(answer.message().calls.size(), 1U);
    EXPECT_EQ(answer.message().calls[0].name, "pick");
    EXPECT_TRUE(answer.message().calls[0].is_complete);
  });
}

TEST(LibraryChat, RefusesOtherConversations) {
  with_engine([](Engine& engine) {
    const Chat chat(engine, TP_DEMO_MODEL);
    const auto refusal_of = [&](const char* conversation) {
      return test::error_of<RequestError>([&] { chat.turn_from_json(conversation); });
    };
    EXPECT_CONTAINS(refusal_of("Hello"), "expected a conversation such as {\"messages\"");
    EXPECT_CONTAINS(refusal_of("[1]"), "found array");
    EXPECT_CONTAINS(refusal_of("{}"), "`messages`: expected a list");
    EXPECT_CONTAINS(refusal_of(R"({"messages": [{"content": "Hi"}]})"), "message 1 has no `role`");
    EXPECT_CONTAINS(refusal_of(R"({"messages": [{"role": "user", "content": ""}],
                                   "add_generation_prompt": "yes"})"),
                    "cannot read the conversation");
    const auto limit_thinking = [&] { chat.turn({{"user", "Hi"}}, {.thinking = ThinkingLimit{}}); };
    EXPECT_CONTAINS(test::error_of<RequestError>(limit_thinking),
                    "`thinking`: expected a chat template with markers of thinking");
    const auto open_another = [&] { const Chat other(engine, TP_TEST_DATA); };
    EXPECT_CONTAINS(test::error_of<CheckpointError>(open_another),
                    "expected a chat template in tokenizer_config.json");
  });
}

}  // namespace
}  // namespace tp
