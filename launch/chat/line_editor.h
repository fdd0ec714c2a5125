#pragma once

#include "launch/chat/terminal_keys.h"

#include <cstdio>
#include <memory>
#include <string>

struct editline;  // defined in <histedit.h>
struct historyW;

namespace tp {

// libedit over a terminal: arrow keys, a history in memory, and pastes of several lines as one text.
class LineEditor {
 public:
  // Shows typed text on `out`.
  explicit LineEditor(std::FILE* out);
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Prompts and waits for Enter. The text has no newline at its end. Returns the event that ended the input.
  TerminalKeys::Event read(std::string& text);

  TerminalKeys& keys() { return keys_; }

 private:
  struct Callbacks;
  struct Free {
    void operator()(editline* editor) const;
    void operator()(historyW* history) const;
  };

  TerminalKeys keys_;
  TerminalKeys::Event event_ = TerminalKeys::Event::key;  // the last event
  std::unique_ptr<historyW, Free> history_;
  std::unique_ptr<editline, Free> editor_;
};

}  // namespace tp
