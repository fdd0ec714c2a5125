#include "launch/chat_input.h"

#include "launch/console.h"
#include "launch/line_input.h"
#include "launch/terminal_input.h"

namespace tp {

std::unique_ptr<ChatInput> open_chat_input(const Console& console) {
  if (console.can_edit) return std::make_unique<TerminalInput>(console.notes);
  return std::make_unique<LineInput>(console);
}

}  // namespace tp
