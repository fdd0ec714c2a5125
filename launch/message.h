// What the program says besides its results, usually on standard error.
#pragma once

#include <cstdio>
#include <string_view>

namespace tp {

// Prints one line, in one write, so that the lines of several ranks do not mix. Errors and warnings quote
// files and requests, which may hold anything: control characters, with which a text could steer the
// terminal, become '?', and a very long line loses its middle.
void print_message(std::string_view line, std::FILE* stream = stderr);

}  // namespace tp
