#include "launch/chat/chat_input.h"

#include "launch/chat/line_input.h"
#include "launch/chat/terminal_input.h"
#include "launch/common/console.h"

namespace tp {

std::unique_ptr<ChatInput> open_chat_input(const Console& console) {
  if (console.can_edit) return std::make_unique<TerminalInput>(console.notes);
  return std::make_unique<LineInput>(console);
}

}  // namespace tp
