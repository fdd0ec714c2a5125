// Messages of the program, usually on standard error.
#pragma once

#include <cstdio>
#include <string_view>

namespace tp {

// Prints one line in one write, so that lines of several ranks don't mix. Errors and warnings quote files and
// requests, which may contain control characters that steer a terminal. These become '?'. A very long line
// loses its middle.
void print_message(std::string_view line, std::FILE* stream = stderr);

// Prints the program's own text unchanged: notes of several lines, prompts, progress.
//
// Neither function throws if the stream can't be written, because a lost message must not cost results.
void print_note(std::string_view text, std::FILE* stream = stderr);

// Shows a line on the terminal of stderr until the next message or status. An empty line removes it.
void show_status(std::string_view line);

}  // namespace tp
