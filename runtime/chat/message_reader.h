#pragma once

#include "runtime/chat/message.h"
#include "runtime/chat/message_syntax.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace tp {

// Reads a message from a model's text during generation, in parts of any size. The division of the text
// affects only the division of the pieces.
class MessageReader {
 public:
  virtual ~MessageReader() = default;

  virtual MessagePieces push(std::string_view text) = 0;
  // Ends the text.
  virtual MessagePieces finish(Ending ending) = 0;
};

// The information for reading the answer to a prompt.
struct AnswerSyntax {
  bool is_plain = true;  // the whole answer is text
  MessageSyntax syntax{};
  bool begins_thinking = false;                     // the prompt has begun thinking
  bool has_one_call = false;                        // the message ends with its first call
  bool calls_come_first = false;                    // after words, all text is text
  ToolSet tools{};                                  // callable tools; if empty, calls are text
  std::set<std::string, std::less<>> text_tools{};  // tools that get a text (CallRules::texts)
};

std::unique_ptr<MessageReader> make_message_reader(AnswerSyntax syntax);

// Reads a whole text.
Message read_message(const AnswerSyntax& syntax, std::string_view text, Ending ending = Ending::complete);

}  // namespace tp
