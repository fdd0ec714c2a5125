#include "launch/chat/answer_printer.h"

#include "launch/common/message.h"
#include "model/files/printable.h"

#include <utility>

#include <unistd.h>

namespace tp {

using Kind = MessagePiece::Kind;

AnswerPrinter::AnswerPrinter(ResultOutput& output, const Console& console, bool is_plain)
    : output_(output), console_(console) {
  if (is_plain || !output.is_terminal()) return;
  const std::size_t columns = terminal_columns(STDOUT_FILENO);
  wrapped_.emplace(columns, [&output](std::string_view text) { output.write_styled(text); });
  markdown_.emplace(*wrapped_,
                    console.styles_answers ? MarkdownText::Marks::styled : MarkdownText::Marks::kept);
  if (console.has_colours)
    wrapped_thoughts_.emplace(columns,
                              [&console](std::string_view text) { print_note(text, console.notes); });
}

void AnswerPrinter::print(const MessagePieces& pieces) {
  for (const MessagePiece& piece : pieces) {
    switch (piece.kind) {
      case Kind::reasoning:
        print_thought(piece.text);
        break;
      case Kind::text:
        print_text(piece.text);
        break;
      case Kind::arguments:
        print_call(piece.text);
        break;
      case Kind::call:
        print_call((is_at_line_begin_ ? "" : "\n") + piece.text + "(");
        break;
      case Kind::call_end:
        print_call(")");
        break;
      case Kind::call_break:
        print_call("\n");
        break;
    }
  }
}

void AnswerPrinter::print_text(std::string_view text) {
  if (text.empty()) return;
  begin_part(text);
  if (!markdown_) return output_.write(text);
  std::string lines(text);
  std::erase(lines, '\r');  // Windows ends lines with \r\n
  markdown_->add(without_controls(lines));
}

void AnswerPrinter::print_call(std::string_view text) {
  if (text.empty()) return;
  begin_part(text);
  if (!markdown_) return output_.write(text);
  markdown_->finish();
  wrapped_->add_text(without_controls(text), kPlain);
  wrapped_->flush();
}

void AnswerPrinter::begin_part(std::string_view text) {
  end_thought();
  has_begun_ = true;
  is_at_line_begin_ = text.back() == '\n';
}

void AnswerPrinter::print_thought(const std::string& text) {
  if (!console_.has_person) return;
  thinks_ = true;
  if (wrapped_thoughts_)
    wrapped_thoughts_->add_text(without_controls(text), kDim);
  else
    console_.print_dimmed(without_controls(text));
}

void AnswerPrinter::end_thought() {
  if (!std::exchange(thinks_, false)) return;
  if (wrapped_thoughts_) wrapped_thoughts_->flush();
  print_note("\n\n", console_.notes);
}

void AnswerPrinter::finish() {
  end_thought();
  if (markdown_) markdown_->finish();
  output_.write("\n");
}

}  // namespace tp
