// Whether the user is a person at a terminal or a script.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace tp {

struct Console {
  // Where prompts, notes and errors of messages go: with the answers where a person sees those, so that all
  // keep their order; for a script to standard error.
  std::FILE* notes = stderr;
  bool has_person = false;      // a person types, and is prompted
  bool can_edit = false;        // the terminal is this process's own
  bool is_launchers = false;    // the terminal is that of mpirun, which forwards lines
  bool has_colours = false;     // notes may be dimmed
  bool styles_answers = false;  // standard output leads to a terminal that shows bold and colours

  // Prints what is not part of the conversation, dimmed if that can be.
  void note(const std::string& text) const;
  // The same without a new line.
  void print_dimmed(const std::string& text) const;
};

// Whether a standard stream of this process leads to a terminal: its own, or where mpirun passes the stream
// on, that of mpirun.
bool leads_to_terminal(int descriptor);

// The width of the terminal to which a standard stream leads; 80 if it is unknown.
std::size_t terminal_columns(int descriptor);

// Examines the standard streams and, under mpirun, those of mpirun.
Console find_console();

}  // namespace tp
