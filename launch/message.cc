#include "launch/message.h"

#include "model/checkpoint/printable.h"

#include <string>

namespace tp {

void print_message(std::string_view line, std::FILE* stream) {
  constexpr std::size_t kLongest = 4096;
  const std::string text = printable(line, kLongest) + "\n";
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

}  // namespace tp
