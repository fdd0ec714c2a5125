#include "launch/generate/piped_text.h"

#include "launch/common/console.h"
#include "launch/common/message.h"
#include "launch/options/prompts.h"

#include <poll.h>
#include <unistd.h>

namespace tp {
namespace {

void wait_for_input() {
  constexpr int kMilliseconds = 1000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kMilliseconds) == 0)
    print_message("tp-infer: waiting for a prompt on standard input; or give --prompt TEXT");
}

}  // namespace

std::optional<std::string> read_piped_text() {
  if (leads_to_terminal(STDIN_FILENO)) return std::nullopt;
  wait_for_input();
  std::string text = read_prompt_file("-");
  if (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace tp
