// Where the messages of a conversation come from.
#pragma once

#include <memory>
#include <string>

namespace tp {

struct Console;

enum class InputEvent { message, end, interrupted };

class ChatInput {
 public:
  virtual ~ChatInput() = default;

  // Prompts a person and waits for the next message, without the end of its line.
  virtual InputEvent read(std::string& message) = 0;

  // An answer begins: from here on the user may stop it.
  virtual void begin_answer() = 0;

  // Whether the user has asked for that: by an interruption, or by Enter alone.
  virtual bool stops_answer() = 0;
};

// With line editing, a history and pastes of several lines where a person has a terminal that can do it.
std::unique_ptr<ChatInput> open_chat_input(const Console& console);

}  // namespace tp
