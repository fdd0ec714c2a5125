#include "launch/chat/chat_input.h"

#include "launch/chat/line_input.h"
#include "launch/chat/terminal_input.h"
#include "launch/common/console.h"

namespace tp {

std::unique_ptr<ChatInput> open_chat_input(const Console& console) {
#ifdef TP_HAS_LIBEDIT
  if (console.can_edit) return std::make_unique<TerminalInput>(console.notes);
#else
  if (console.can_edit)
    console.note(
        "This tp-infer was built without libedit: chat has no history, and arrow keys don't move the "
        "cursor.");
#endif
  return std::make_unique<LineInput>(console);
}

}  // namespace tp
