#pragma once

#include "launch/common/console.h"
#include "launch/common/result_output.h"
#include "runtime/chat/message.h"

#include <string>

namespace tp {

// Prints an answer as it comes: text as it is, thinking dimmed and only to a person, and calls of tools as
// calls: get_weather({"city": "Oslo"}).
class AnswerPrinter {
 public:
  // Both must outlive it.
  AnswerPrinter(ResultOutput& output, const Console& console) : output_(output), console_(console) {}

  void print(const MessagePieces& pieces);
  // Ends the last line, if there is one.
  void finish();
  bool has_begun() const { return has_begun_; }

 private:
  void print_text(std::string_view text);
  void print_thought(const std::string& text);
  void end_thought();

  ResultOutput& output_;
  const Console& console_;
  bool has_begun_ = false;  // something of the answer is printed
  bool thinks_ = false;     // the last line is a thought
  bool is_at_line_begin_ = true;
};

}  // namespace tp
