// The loop of the commands that read one input per line and write one result per line.
#pragma once

#include "tp/internal/require.h"

#include <cstddef>
#include <functional>
#include <istream>
#include <string>
#include <string_view>

namespace tp {

using TextSink = std::function<void(std::string_view)>;

// Writes process(line) and a newline for every line of `in`, several lines at a time if they have already
// arrived. The last line needs no newline. Rethrows a RequestError of process() with the line's number in
// front, after the results of earlier lines.
template <class Process>
void for_each_line(std::istream& in, const TextSink& write, Process&& process) {
  constexpr std::size_t kMaxPending = 1 << 16;
  std::string pending;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    try {
      pending += process(line);
      pending += '\n';
    } catch (const RequestError& error) {
      write(pending);
      throw_error<RequestError>("input line {}: {}", number, error.what());
    }
    if (pending.size() < kMaxPending && in.rdbuf()->in_avail() > 0) continue;
    write(pending);
    pending.clear();
  }
  write(pending);
}

}  // namespace tp
