#include "launch/chat/answer_printer.h"

#include "launch/common/message.h"
#include "model/files/printable.h"

#include <utility>

namespace tp {

using Kind = MessagePiece::Kind;

void AnswerPrinter::print(const MessagePieces& pieces) {
  for (const MessagePiece& piece : pieces) {
    switch (piece.kind) {
      case Kind::reasoning:
        print_thought(piece.text);
        break;
      case Kind::text:
      case Kind::arguments:
        print_text(piece.text);
        break;
      case Kind::call:
        print_text((is_at_line_begin_ ? "" : "\n") + piece.text + "(");
        break;
      case Kind::call_end:
        print_text(")");
        break;
      case Kind::call_break:
        print_text("\n");
        break;
    }
  }
}

void AnswerPrinter::print_text(std::string_view text) {
  if (text.empty()) return;
  end_thought();
  output_.write(text);
  has_begun_ = true;
  is_at_line_begin_ = text.back() == '\n';
}

void AnswerPrinter::print_thought(const std::string& text) {
  if (!console_.has_person) return;
  thinks_ = true;
  console_.print_dimmed(without_controls(text));
}

void AnswerPrinter::end_thought() {
  if (std::exchange(thinks_, false)) print_note("\n\n", console_.notes);
}

void AnswerPrinter::finish() {
  end_thought();
  output_.write("\n");
}

}  // namespace tp
