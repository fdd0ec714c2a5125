#include "launch/console.h"

#include "launch/message.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0 if there is none to be seen.
pid_t parent_of(pid_t process) {
  const std::string status = text_of(fmt::format("/proc/{}/stat", process));  // "12 (name) S 11 ..."
  const std::size_t name_end = status.rfind(')');
  return name_end == std::string::npos ? 0 : std::atoi(status.c_str() + name_end + 3);
}

bool is_launcher(pid_t process) {
  const std::string name = text_of(fmt::format("/proc/{}/comm", process));
  return name == "mpirun\n" || name == "mpiexec\n" || name == "orterun\n" || name == "prterun\n";
}

// The mpirun that started this process on this host.
std::optional<pid_t> find_launcher() {
  for (pid_t process = ::getppid(); process > 1; process = parent_of(process)) {
    if (is_launcher(process)) return process;
  }
  return std::nullopt;
}

bool is_terminal(pid_t process, int descriptor) {
  std::error_code error;
  const std::string file =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", process, descriptor), error).string();
  return file.starts_with("/dev/pts/") || file.starts_with("/dev/tty") || file == "/dev/console";
}

}  // namespace

void Console::note(const std::string& text) const {
  const char* const begin = has_colours ? "\x1b[2m" : "";
  const char* const end = has_colours ? "\x1b[0m" : "";
  print_note(fmt::format("{}{}{}\n", begin, text, end), notes);
  std::fflush(notes);
}

Console find_console() {
  bool is_own = isatty(STDIN_FILENO) == 1;
  bool shows_out = isatty(STDOUT_FILENO) == 1;
  bool shows_err = isatty(STDERR_FILENO) == 1;
  const std::optional<pid_t> launcher = is_own ? std::nullopt : find_launcher();
  if (launcher) {
    // What mpirun gives to the process are pipes, whatever its own streams are.
    shows_out = is_terminal(*launcher, STDOUT_FILENO);
    shows_err = is_terminal(*launcher, STDERR_FILENO);
  }
  Console console;
  console.is_launchers = launcher && is_terminal(*launcher, STDIN_FILENO);
  console.has_person = is_own || console.is_launchers;
  const bool is_smart = variable("TERM") != "" && variable("TERM") != "dumb";
  console.can_edit = is_own && (shows_out || shows_err) && is_smart;
  if (console.has_person && shows_out) console.notes = stdout;
  console.has_colours = (console.notes == stdout || shows_err) && console.has_person && is_smart &&
                        variable("NO_COLOR").empty();
  return console;
}

}  // namespace tp
