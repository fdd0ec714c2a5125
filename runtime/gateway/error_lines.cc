#include "runtime/gateway/error_lines.h"

#include "model/files/printable.h"

#include <algorithm>
#include <cctype>

namespace tp {
namespace {

constexpr std::size_t kMaxLine = 400;  // bytes of a line

// The host in mpirun's message about a host that it cannot reach any more; empty in other lines.
std::string_view lost_host(std::string_view line) {
  constexpr std::string_view kBefore = " on node ";
  const std::size_t at = line.find(kBefore);
  if (at == line.npos || line.find("Remote daemon") == line.npos) return {};
  return line.substr(at + kBefore.size());
}

// The program in mpirun's message about a program that it cannot find; empty in other lines.
std::string_view missing_program(std::string_view line) {
  constexpr std::string_view kBefore = "Executable: ";
  return line.starts_with(kBefore) ? line.substr(kBefore.size()) : std::string_view();
}

}  // namespace

// How well a line explains the end of a job; 0: not at all.
int ErrorLines::explains(std::string_view line) {
  const bool has_letters =
      std::ranges::any_of(line, [](unsigned char byte) { return std::isalpha(byte) != 0; });
  if (!has_letters) return 0;
  if (!missing_program(line).empty()) return kNamesProgram;
  if (line.find("process rank") != line.npos || !lost_host(line).empty()) return kNamesRank;
  return line.find("tp-infer") != line.npos && line.find(": ") != line.npos ? 2 : 1;
}

void ErrorLines::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    pending_ += part.substr(0, kMaxLine - std::min(kMaxLine, pending_.size()));
    if (end == bytes.npos) return;
    take(pending_);
    pending_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void ErrorLines::expect_errors() {
  best_.clear();
  rank_ = 0;
  min_ = 2;
}

void ErrorLines::take(std::string_view line) {
  const int rank = explains(line);
  if (rank < std::max(min_, rank_)) return;
  rank_ = rank;
  if (rank == kNamesProgram) {
    best_ = "mpirun found no program " + printable(missing_program(line));
    return;
  }
  const std::string_view host = lost_host(line);
  best_ = host.empty() ? printable(line) : "the host " + printable(host) + " was lost";
}

}  // namespace tp
