#pragma once

#include "launch/chat/chat_input.h"
#include "launch/chat/line_editor.h"

#include <cstdio>
#include <optional>

#include <termios.h>

namespace tp {

// Messages that a user types at a terminal of this process.
class TerminalInput : public ChatInput {
 public:
  // Prompts, and shows typed text, on `out`.
  explicit TerminalInput(std::FILE* out);
  ~TerminalInput() override;
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  InputEvent read(std::string& message) override;
  void begin_answer() override;
  bool stops_answer() override;

 private:
  // Terminal mode during an answer: keys arrive one by one and are not echoed.
  class Silence {
   public:
    Silence();
    ~Silence();
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;

   private:
    termios before_{};
  };

  std::FILE* out_;
  LineEditor editor_;
  std::optional<Silence> silence_;
};

}  // namespace tp
