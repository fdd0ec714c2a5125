// Sources of the user's messages.
#pragma once

#include <memory>
#include <string>

namespace tp {

struct Console;

enum class InputEvent { message, end, interrupted };

class ChatInput {
 public:
  virtual ~ChatInput() = default;

  // Prompts the user and waits for the next message, without its newline.
  virtual InputEvent read(std::string& message) = 0;

  // Called when an answer begins. From now on, the user may stop it.
  virtual void begin_answer() = 0;

  // Whether the user has asked to stop: by an interruption, or with an empty line.
  virtual bool stops_answer() = 0;
};

// Returns an input with line editing, history and multi-line paste if the user's terminal supports them.
std::unique_ptr<ChatInput> open_chat_input(const Console& console);

}  // namespace tp
