// Conversations. The model's chat template turns messages into a prompt, and a reader finds thinking, visible
// text and tool calls in the model's answer. On rank 0:
//
//   const tp::Chat chat(engine, "/models/llama");
//   const tp::ChatTurn turn = chat.turn({{"user", "Who are you?"}}, {.max_tokens = 200});
//   tp::AnswerReader answer = turn.reader();
//   engine.run(turn.request, [&](const tp::Event& event) {
//     for (const tp::MessagePiece& piece : answer.read(event))
//       if (piece.kind == tp::MessagePiece::Kind::text) std::cout << piece.text << std::flush;
//   });
//   const tp::Message& message = answer.message();  // with message.reasoning and message.calls
#pragma once

#include "tp/event.h"
#include "tp/marked_text.h"
#include "tp/message.h"
#include "tp/request.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct AnswerSyntax;  // runtime/chat/message_reader.h
class ChatPrompts;    // runtime/chat/chat_prompts.h
class Engine;         // tp/engine.h
class MessageReader;  // runtime/chat/message_reader.h

struct ChatMessage {
  std::string role{};  // "system", "user" or "assistant"
  std::string content{};
};

// Reads one answer while the engine generates it. The sizes of the parts affect only the division into
// pieces, not the message.
class AnswerReader {
 public:
  explicit AnswerReader(const AnswerSyntax& syntax);
  ~AnswerReader();
  AnswerReader(AnswerReader&& other) noexcept;
  AnswerReader& operator=(AnswerReader&& other) noexcept;

  // Reads a TokenEvent, and ignores other events. Returns the new pieces. An event with a finish_reason ends
  // the message. All events must belong to the same continuation.
  MessagePieces read(const Event& event);
  // Reads text that does not come from events, and ends it.
  MessagePieces push(std::string_view text);
  MessagePieces finish(Ending ending = Ending::complete);

  // The message so far.
  const Message& message() const { return message_; }

 private:
  MessagePieces add(MessagePieces pieces);

  std::unique_ptr<MessageReader> reader_;
  Message message_;
};

// The model's turn in a conversation, created by Chat.
class ChatTurn {
 public:
  ChatTurn(Request request, MarkedText prompt, AnswerSyntax syntax);

  Request request;    // asks for the answer: submit it to the engine
  MarkedText prompt;  // the text of request.prompt, which ends where the answer begins

  // A reader for one answer. A request with several continuations needs one reader for each.
  AnswerReader reader() const;
  // Reads a whole answer.
  Message read(std::string_view answer, Ending ending = Ending::complete) const;

 private:
  std::shared_ptr<const AnswerSyntax> syntax_;
};

// A model's chat template. All members are thread-safe.
class Chat {
 public:
  // On rank 0. `model` is the model of the engine's options, and `engine` must outlive this object.
  // `chat_template` is a file with another template (Jinja); empty: the model's own template. Throws
  // CheckpointError if the model has no chat template or no tokenizer, or if a file is damaged.
  Chat(const Engine& engine, const std::filesystem::path& model,
       const std::filesystem::path& chat_template = {});
  ~Chat();

  // The turn after these messages. `request` contains settings such as sampling and max_tokens. This function
  // sets its prompt, adds stop tokens, and makes the markers of thinking and of calls visible to the reader.
  // For a thinking limit, set only thinking->max_tokens. Throws RequestError if the template refuses the
  // messages, or if the model does not support the request.
  ChatTurn turn(const std::vector<ChatMessage>& messages, Request request = {}) const;
  // The turn after a conversation in JSON: an object with `messages` in the format of OpenAI's API, including
  // tool calls and their results, and perhaps `tools`, `continue_final_message` (the answer continues the
  // last message) and further variables of the template. Throws RequestError.
  ChatTurn turn_from_json(std::string_view conversation, Request request = {},
                          const CallRules& rules = {}) const;

 private:
  const Engine& engine_;
  std::unique_ptr<const ChatPrompts> prompts_;
};

}  // namespace tp
