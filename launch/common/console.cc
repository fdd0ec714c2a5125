#include "launch/common/console.h"

#include "launch/common/launcher_streams.h"
#include "launch/common/message.h"
#include "parallel/machine/launcher.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tp {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Slurm's daemon gives a task the terminal itself.
bool passes_streams_on(const Launcher& launcher) { return launcher.name != "slurmstepd"; }

bool is_terminal(pid_t process, int descriptor) {
  std::error_code error;
  const std::string file =
      std::filesystem::read_symlink(descriptor_path(process, descriptor), error).string();
  return file.starts_with("/dev/pts/") || file.starts_with("/dev/tty") || file == "/dev/console";
}

}  // namespace

void Console::note(const std::string& text) const {
  print_dimmed(text);
  print_note("\n", notes);
}

void Console::print_dimmed(const std::string& text) const {
  const char* const begin = has_colours ? "\x1b[2m" : "";
  const char* const end = has_colours ? "\x1b[0m" : "";
  print_note(fmt::format("{}{}{}", begin, text, end), notes);
}

std::size_t terminal_columns(int descriptor) {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const std::optional<Launcher> launcher = find_launcher();
  const bool is_launcher_s = launcher && passes_streams_on(*launcher) && is_launchers(*launcher, descriptor);
  const int opened = is_launcher_s ? ::open(descriptor_path(launcher->process, descriptor).c_str(),
                                            O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
                                   : -1;
  const bool is_known = ::ioctl(opened >= 0 ? opened : descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  if (opened >= 0) ::close(opened);
  return is_known ? size.ws_col : kUsual;
}

// mpirun gives its ranks pipes, and a terminal of its own making for standard output, whatever its own
// streams are.
bool leads_to_terminal(int descriptor) {
  const std::optional<Launcher> launcher = find_launcher();
  return launcher && passes_streams_on(*launcher) && is_launchers(*launcher, descriptor)
             ? is_terminal(launcher->process, descriptor)
             : ::isatty(descriptor) == 1;
}

Console find_console() {
  const bool is_own = ::isatty(STDIN_FILENO) == 1;
  const bool shows_out = leads_to_terminal(STDOUT_FILENO);
  const bool shows_err = leads_to_terminal(STDERR_FILENO);
  Console console;
  console.has_person = leads_to_terminal(STDIN_FILENO);
  console.is_launchers = console.has_person && !is_own;
  const bool is_smart = !variable("TERM").empty() && variable("TERM") != "dumb";
  console.can_edit = is_own && (shows_out || shows_err) && is_smart;
  if (console.has_person && shows_out) console.notes = stdout;
  console.has_colours = (console.notes == stdout || shows_err) && console.has_person && is_smart &&
                        variable("NO_COLOR").empty();
  console.styles_answers = shows_out && is_smart && variable("NO_COLOR").empty();
  return console;
}

}  // namespace tp
