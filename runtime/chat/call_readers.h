// The reader of a call in a given notation.
#pragma once

#include "runtime/chat/call_reader.h"
#include "runtime/chat/message_syntax.h"

#include <memory>
#include <string>
#include <vector>

namespace tp {

// `first`: the first byte of the call. Returns null if no call begins with it. If `is_strict`, a JSON object
// with unknown members is not a call. The tools must outlive the reader.
std::unique_ptr<CallReader> make_call_reader(const CallNotation& calls, const ToolSet& tools, bool is_strict,
                                             char first);

// The texts that end calls, except texts that may also occur in ordinary text.
std::vector<std::string> ends_of(const CallNotation& calls);

}  // namespace tp
