#include "launch/message.h"

#include "model/weights/checkpoint/printable.h"

#include <string>

namespace tp {

void print_message(std::string_view line, std::FILE* stream) {
  constexpr std::size_t kLongest = 4096;
  print_note(printable(line, kLongest) + "\n", stream);
}

void print_note(std::string_view text, std::FILE* stream) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace tp
