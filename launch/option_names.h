#pragma once

#include <string>

namespace tp {

// The library's errors name the fields of its options, in backquotes; users know them as flags: what says
// "raise `cache_tokens`" becomes "raise --cache-tokens".
std::string with_flags(std::string text);

}  // namespace tp
