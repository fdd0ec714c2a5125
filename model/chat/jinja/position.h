// Positions in a template.
#pragma once

#include <cstddef>

namespace tp::jinja {

struct Position {
  std::size_t line = 1;
  std::size_t column = 1;  // in characters
};

}  // namespace tp::jinja
