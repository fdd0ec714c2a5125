// Helpers that throw the library's errors. Not installed, so programs that use the library don't need fmt.
#pragma once

#include "tp/error.h"

#include <utility>

#include <fmt/format.h>

namespace tp {

// Formats a message and throws it: throw_error<ConfigError>("cannot start {} ranks: ...", n).
template <class E, class... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

// Throws E with the formatted text unless `condition` holds. The arguments are always evaluated.
template <class E, class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tp
