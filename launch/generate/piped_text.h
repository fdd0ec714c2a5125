// A text that comes through a pipe without being asked for: `echo Hello | tp-infer generate`.
#pragma once

#include <optional>
#include <string>

namespace tp {

// What is in standard input, without the newline at its end, as a shell takes the output of a command;
// nothing at a terminal, which may be mpirun's, or where there is nothing to read. Rank 0, the one that
// mpirun gives its input. Says on stderr that it waits, if nothing comes for a second.
std::optional<std::string> read_piped_text();

}  // namespace tp
