#pragma once

#include "launch/chat/markdown_text.h"
#include "launch/chat/wrapped_text.h"
#include "launch/common/console.h"
#include "launch/common/result_output.h"
#include "runtime/chat/message.h"

#include <optional>
#include <string>
#include <string_view>

namespace tp {

// Prints an answer as it comes: text as it is, thinking dimmed and only to a person, and calls of tools as
// calls: get_weather({"city": "Oslo"}). On a terminal, lines break between words, and Markdown is rendered.
class AnswerPrinter {
 public:
  // Both must outlive it. `is_plain`: text appears on a terminal as it does in a file.
  AnswerPrinter(ResultOutput& output, const Console& console, bool is_plain);

  void print(const MessagePieces& pieces);
  // Ends an unfinished last line.
  void finish();
  bool has_begun() const { return has_begun_; }

 private:
  // A part of the answer's text.
  void print_text(std::string_view text);
  // A part of a call, which has no Markdown.
  void print_call(std::string_view text);
  void begin_part(std::string_view text);
  void print_thought(const std::string& text);
  void end_thought();

  ResultOutput& output_;
  const Console& console_;
  // At a terminal only.
  std::optional<WrappedText> wrapped_{};
  std::optional<MarkdownText> markdown_{};
  std::optional<WrappedText> wrapped_thoughts_{};
  bool has_begun_ = false;  // something of the answer is printed
  bool thinks_ = false;     // the last line is a thought
  bool is_at_line_begin_ = true;
};

}  // namespace tp
