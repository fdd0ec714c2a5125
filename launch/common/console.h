// Whether the user is a person at a terminal or a script.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace tp {

struct Console {
  // Receives prompts, notes and errors about messages. A person sees them in order on the terminal of the
  // answers. For a script, they go to standard error.
  std::FILE* notes = stderr;
  bool has_person = false;      // a person types, and is prompted
  bool can_edit = false;        // the terminal is this process's own
  bool is_launchers = false;    // the terminal is that of mpirun, which forwards lines
  bool has_colours = false;     // notes may be dimmed
  bool styles_answers = false;  // standard output leads to a terminal that shows bold and colours

  // Prints a note that isn't part of the conversation, dimmed if possible.
  void note(const std::string& text) const;
  // Prints a text without a newline, dimmed if possible.
  void print_dimmed(const std::string& text) const;
};

// Whether a standard stream leads to a terminal: this process's terminal or, if mpirun forwards the stream,
// mpirun's.
bool leads_to_terminal(int descriptor);

// The width of the terminal to which a standard stream leads; 80 if it is unknown.
std::size_t terminal_columns(int descriptor);

// Examines the standard streams and, under mpirun, those of mpirun.
Console find_console();

}  // namespace tp
