// The loop of the commands that read one input per line and write one result per line.
#pragma once

#include "tp/error.h"

#include <cstddef>
#include <istream>
#include <ostream>
#include <string>

namespace tp {

// Writes process(line) and a newline to `out` for every line of `in`. The last line needs no newline at its
// end. A RequestError of process() is thrown again with the number of the line in front of it; throws Error
// when `out` takes no more.
template <class Process>
void for_each_line(std::istream& in, std::ostream& out, Process&& process) {
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    try {
      out << process(line) << '\n';
    } catch (const RequestError& error) {
      throw_error<RequestError>("input line {}: {}", number, error.what());
    }
    require<Error>(out.good(),
                   "cannot write the result of input line {}: the output takes no more; check the disk",
                   number);
  }
}

}  // namespace tp
