#include "launch/common/message.h"

#include "model/files/printable.h"

#include <atomic>

namespace tp {
namespace {

std::atomic<bool> has_status = false;

void remove_status() {
  constexpr std::string_view kErase = "\r\033[K";
  if (has_status.exchange(false)) std::fwrite(kErase.data(), 1, kErase.size(), stderr);
}

}  // namespace

void print_message(std::string_view line, std::FILE* stream) {
  constexpr std::size_t kLongest = 4096;
  print_note(printable(line, kLongest) + "\n", stream);
}

void print_note(std::string_view text, std::FILE* stream) {
  remove_status();
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

void show_status(std::string_view line) {
  remove_status();
  print_note(line);
  has_status = !line.empty();
}

}  // namespace tp
