#pragma once

namespace tp {

// Opens the descriptors 0, 1 and 2 if the program was started without them, like with `<&-` in a shell.
// Otherwise the next file or socket, such as MPI's, would get their numbers, and standard input would be read
// from it. The opened input is empty, messages are dropped, and writing results fails. Call it before
// anything else.
void open_standard_streams();

}  // namespace tp
