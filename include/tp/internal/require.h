// How the library throws its errors. Not installed: programs that use the library need no fmt.
#pragma once

#include "tp/error.h"

#include <utility>

#include <fmt/format.h>

namespace tp {

// throw_error<ConfigError>("cannot start {} ranks: ...", n): formats and throws.
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
