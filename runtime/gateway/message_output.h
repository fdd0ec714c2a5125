// Messages of the gateway and of its jobs.
#pragma once

#include <string_view>

namespace tp {

// Writes to standard error, unless nobody reads it: then the rest of the text is lost, because the gateway's
// only thread must not wait.
void write_or_drop(std::string_view text);

}  // namespace tp
