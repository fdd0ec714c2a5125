// The reader for a call in a notation.
#pragma once

#include "runtime/chat/call_reader.h"
#include "runtime/chat/message_syntax.h"

#include <memory>
#include <string>
#include <vector>

namespace tp {

// `first` is the first byte of the call; nothing if no call begins with it. If `is_strict`, a JSON object
// with unknown members is no call. The tools must outlive the reader.
std::unique_ptr<CallReader> make_call_reader(const CallNotation& calls, const ToolSet& tools, bool is_strict,
                                             char first);

// The texts that may end a call: not those that text may contain, too.
std::vector<std::string> ends_of(const CallNotation& calls);

}  // namespace tp
