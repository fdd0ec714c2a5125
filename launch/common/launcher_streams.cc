#include "launch/common/launcher_streams.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

// --output and its older names
bool concerns_output(const std::string& option) {
  constexpr std::array kBegins = {"--output", "--tag-output", "--timestamp-output",
                                  "--xml",    "--xterm",      "--merge"};
  return std::ranges::any_of(kBegins, [&](const char* begin) { return option.starts_with(begin); });
}

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Other ranks and mpirun itself write messages, too. In a file without O_APPEND, they would overwrite ours.
bool is_shared_file(const Launcher& launcher, int descriptor) {
  struct stat own {};
  struct stat messages {};
  if (::stat(descriptor_path(launcher.process, descriptor).c_str(), &own) != 0) return true;
  if (!S_ISREG(own.st_mode)) return false;
  return ::stat(descriptor_path(launcher.process, STDERR_FILENO).c_str(), &messages) != 0 ||
         is_same_file(own, messages);
}

void write_to_launchers(const Launcher& launcher, int descriptor) {
  if (!is_launchers(launcher, descriptor) || is_shared_file(launcher, descriptor)) return;
  // Without O_NONBLOCK, opening a pipe waits for a reader.
  const int opened = ::open(descriptor_path(launcher.process, descriptor).c_str(),
                            O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (opened < 0) return;
  ::fcntl(opened, F_SETFL, O_APPEND);
  // The pipe to mpirun stays open under another number: mpirun closes the input of a rank that closes its
  // output.
  ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  ::dup2(opened, descriptor);
  ::close(opened);
}

}  // namespace

std::string descriptor_path(pid_t process, int descriptor) {
  return fmt::format("/proc/{}/fd/{}", process, descriptor);
}

bool is_launchers(const Launcher& launcher, int descriptor) {
  struct stat own {};
  struct stat given {};
  return ::fstat(descriptor, &own) == 0 &&
         ::stat(descriptor_path(launcher.started, descriptor).c_str(), &given) == 0 &&
         is_same_file(own, given);
}

void write_past_open_mpi_5() {
  if (launched_rank().rank != 0) return;
  const std::optional<Launcher> launcher = find_launcher();
  if (!launcher || launcher->name != "prterun") return;
  if (std::ranges::any_of(options_of(*launcher), concerns_output)) return;
  write_to_launchers(*launcher, STDOUT_FILENO);
  write_to_launchers(*launcher, STDERR_FILENO);
}

}  // namespace tp
