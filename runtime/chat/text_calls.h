// Calls of tools that get a text instead of arguments (CallRules::texts).
#pragma once

#include "runtime/chat/message_reader.h"

#include <memory>
#include <set>
#include <string>

namespace tp {

using TextTools = std::set<std::string, std::less<>>;

// Replaces the arguments of calls of `tools` by the text in the parameter kTextParameter, while they arrive.
// Arguments without such a text are passed on as they are.
std::unique_ptr<MessageReader> make_text_call_reader(std::unique_ptr<MessageReader> reader, TextTools tools);

}  // namespace tp
