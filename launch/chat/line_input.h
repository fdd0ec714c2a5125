#pragma once

#include "launch/chat/chat_input.h"
#include "launch/common/console.h"
#include "launch/common/input_buffer.h"

#include <optional>
#include <string>

namespace tp {

// Messages that are lines, from a script or from a user whose terminal does not belong to this process.
class LineInput : public ChatInput {
 public:
  explicit LineInput(const Console& console) : console_(console) {}

  InputEvent read(std::string& message) override;
  void begin_answer() override;
  bool stops_answer() override;

 private:
  std::optional<std::string> take_line();
  // Takes an empty line if it is the next one and already there.
  bool take_empty_line();

  Console console_;
  InputBuffer input_;
  bool typed_ahead_ = false;  // there was more to read when the answer began
};

}  // namespace tp
