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
  // Prompts, and shows what is typed, on `out`.
  explicit TerminalInput(std::FILE* out);
  ~TerminalInput() override;
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  InputEvent read(std::string& message) override;
  void begin_answer() override;
  bool stops_answer() override;

 private:
  // While an answer is printed, what is typed comes key by key and is not echoed into it.
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
