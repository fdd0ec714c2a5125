// Text from a pipe without an option: `echo Hello | tp-infer generate`.
#pragma once

#include <optional>
#include <string>

namespace tp {

// Returns the text in standard input without the newline at its end, like a shell does with a command's
// output. Returns nothing if standard input is a terminal (also mpirun's) or can't be read. Only for rank 0,
// because mpirun forwards its input to rank 0. If no input arrives within a second, prints a note to stderr.
std::optional<std::string> read_piped_text();

}  // namespace tp
