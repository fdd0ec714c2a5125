// The standard streams of the program that started this rank, such as mpirun.
#pragma once

#include "parallel/machine/launcher.h"

#include <string>

namespace tp {

// Returns the path of a process's descriptor on this host.
std::string descriptor_path(pid_t process, int descriptor);

// Whether a stream comes from the launcher, and not from a script: echo Hello | tp-infer generate
bool is_launchers(const Launcher& launcher, int descriptor);

// Lets rank 0 write to mpirun's own streams if mpirun is Open MPI 5's and runs on this host. Open MPI 5 holds
// back unfinished lines, so a chat shows nothing. It also prints the beginning of one stream's line on the
// other stream if the latter ends a line first (seen with 5.0.7). Does nothing if mpirun marks or redirects
// the output. Call it before anything is written.
void write_past_open_mpi_5();

}  // namespace tp
