#pragma once

#include "launch/chat/chat_input.h"
#include "launch/common/console.h"
#include "launch/common/input_buffer.h"

#include <optional>
#include <string>

namespace tp {

// Messages that are single lines, from a script or from a user whose terminal does not belong to this
// process.
class LineInput : public ChatInput {
 public:
  explicit LineInput(const Console& console) : console_(console) {}

  InputEvent read(std::string& message) override;
  void begin_answer() override;
  bool stops_answer() override;

 private:
  std::optional<std::string> take_line();
  // Takes the next line if it is empty and has already arrived.
  bool take_empty_line();

  Console console_;
  InputBuffer input_;
  bool typed_ahead_ = false;  // input was waiting when the answer began
};

}  // namespace tp
