#include "launch/common/console.h"

#include "launch/common/launcher_streams.h"
#include "launch/common/message.h"
#include "parallel/machine/launcher.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
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

// mpirun gives its ranks pipes, and a new terminal as standard output, for any streams of its own.
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
  return console;
}

}  // namespace tp
