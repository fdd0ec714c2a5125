#pragma once

#include "runtime/chat/message.h"
#include "runtime/chat/message_syntax.h"

#include <memory>
#include <string>
#include <string_view>

namespace tp {

// Reads a message out of a model's text as it is generated, in pieces of any size: its pieces do not depend
// on how the text is cut, but for where they are divided.
class MessageReader {
 public:
  virtual ~MessageReader() = default;

  virtual MessagePieces push(std::string_view text) = 0;
  // At the end of the text.
  virtual MessagePieces finish(Ending ending) = 0;
};

// What is needed to read the answer to a prompt.
struct AnswerSyntax {
  bool is_plain = true;  // all of it is text
  MessageSyntax syntax{};
  bool begins_thinking = false;  // the prompt has begun it
  bool has_one_call = false;     // the message ends with its first call
  ToolSet tools{};               // that may be called; if there are none, calls are text
};

std::unique_ptr<MessageReader> make_message_reader(AnswerSyntax syntax);

// Reads all of a text.
Message read_message(const AnswerSyntax& syntax, std::string_view text, Ending ending = Ending::complete);

}  // namespace tp
