#include "launch/piped_text.h"

#include "launch/message.h"
#include "launch/prompts.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace tp {
namespace {

// mpirun hands on what it reads through a pipe. Only it can say what it reads from, and on its host only.
bool mpirun_is_at_terminal() {
  constexpr std::array<std::string_view, 4> kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun"};
  const std::string parent = fmt::format("/proc/{}/", ::getppid());
  std::string name;
  std::getline(std::ifstream(parent + "comm"), name);
  if (std::find(kLaunchers.begin(), kLaunchers.end(), name) == kLaunchers.end()) return false;
  const int input = ::open((parent + "fd/0").c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (input < 0) return false;
  const bool is_terminal = ::isatty(input) == 1;
  ::close(input);
  return is_terminal;
}

void wait_for_input() {
  constexpr int kMilliseconds = 1000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kMilliseconds) == 0)
    print_message("tp-infer: waiting for a prompt on standard input; or give --prompt TEXT");
}

}  // namespace

std::optional<std::string> read_piped_text() {
  if (::isatty(STDIN_FILENO) == 1 || mpirun_is_at_terminal()) return std::nullopt;
  wait_for_input();
  std::string text = read_prompt_file("-");
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace tp
