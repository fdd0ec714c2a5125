// The files that connect a job's processes on this host.
#pragma once

#include <set>
#include <span>
#include <string>

#include <sys/types.h>

namespace tp {

// mpirun removes its files when a job ends, but not if mpirun or a rank is killed. Knows the files of one job
// only: other jobs of this user may run on the host.
class JobFiles {
 public:
  // Finds the files that these processes have mapped: Open MPI's segments of shared memory, and the session
  // folder of an mpirun that is one of the processes.
  void note(std::span<const pid_t> members);
  // Removes the files. Call it when all processes have ended.
  void remove();

 private:
  void note_mappings(pid_t member);

  std::set<pid_t> members_{};
  std::set<std::string> segments_{};  // paths in /dev/shm
  std::set<std::string> folders_{};   // paths of session folders
};

}  // namespace tp
