#pragma once

#include "launch/common/console.h"
#include "launch/common/result_output.h"
#include "runtime/chat/message.h"

#include <string>

namespace tp {

// Prints an answer as it arrives: text unchanged, thinking dimmed and only for a person, and tool calls like
// get_weather({"city": "Oslo"}).
class AnswerPrinter {
 public:
  // `output` and `console` must outlive this object.
  AnswerPrinter(ResultOutput& output, const Console& console) : output_(output), console_(console) {}

  void print(const MessagePieces& pieces);
  // Ends an unfinished last line.
  void finish();
  bool has_begun() const { return has_begun_; }

 private:
  void print_text(std::string_view text);
  void print_thought(const std::string& text);
  void end_thought();

  ResultOutput& output_;
  const Console& console_;
  bool has_begun_ = false;  // a part of the answer is printed
  bool thinks_ = false;     // the last line is thinking
  bool is_at_line_begin_ = true;
};

}  // namespace tp
