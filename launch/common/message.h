// Messages of the program, usually on standard error.
#pragma once

#include <cstdio>
#include <string_view>

namespace tp {

// Prints one line, in one write, so that the lines of several ranks do not mix. Errors and warnings quote
// files and requests, which may contain anything: control characters, with which a text could steer the
// terminal, become '?', and a very long line loses its middle.
void print_message(std::string_view line, std::FILE* stream = stderr);

// Prints text of the program's own as it is: notes of several lines, prompts, progress.
//
// Neither throws if the stream cannot be written: a lost message must not cost results.
void print_note(std::string_view text, std::FILE* stream = stderr);

// Shows a line on the terminal of stderr until the next message or status; an empty one removes it.
void show_status(std::string_view line);

}  // namespace tp
