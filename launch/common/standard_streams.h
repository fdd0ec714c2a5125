#pragma once

namespace tp {

// Opens the descriptors 0, 1 and 2 that the program was started without, as by `<&-` in a shell. Else the
// next file or socket would take their numbers, MPI's own among them, and standard input would be read from
// there. Input is empty then, messages are dropped, and every write of results fails. Call it first of all.
void open_standard_streams();

}  // namespace tp
