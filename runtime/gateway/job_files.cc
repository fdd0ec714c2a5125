#include "runtime/gateway/job_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace tp {
namespace {

// A model's files may be in /dev/shm, too, and must stay.
bool is_segment(std::string_view path) {
  constexpr std::string_view kPrefixes[] = {"/dev/shm/vader_segment.", "/dev/shm/sm_segment.",
                                            "/dev/shm/tp-infer-"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return path.starts_with(prefix); });
}

struct SessionFolder {
  std::string path;
  pid_t mpirun = 0;
};

// "/tmp/ompi.host.0/pid.17" for "/tmp/ompi.host.0/pid.17/hwloc.sm".
std::optional<SessionFolder> session_folder(std::string_view path) {
  constexpr std::string_view kProcess = "/pid.";
  const std::size_t session = path.find("/ompi.");
  const std::size_t process = path.find(kProcess, session == path.npos ? path.size() : session);
  if (process == path.npos || path.find('/', session + 1) != process) return std::nullopt;
  SessionFolder folder;
  const char* const begin = path.data() + process + kProcess.size();
  const auto [end, error] = std::from_chars(begin, path.data() + path.size(), folder.mpirun);
  if (error != std::errc() || end == path.data() + path.size() || *end != '/') return std::nullopt;
  folder.path = std::string(path.data(), end);
  return folder;
}

}  // namespace

void JobFiles::note(std::span<const pid_t> members) {
  members_.insert(members.begin(), members.end());
  for (const pid_t member : members) note_mappings(member);
}

void JobFiles::note_mappings(pid_t member) {
  std::ifstream maps(fmt::format("/proc/{}/maps", member));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t begin = line.find('/');
    if (begin == line.npos || line.ends_with(" (deleted)")) continue;
    const std::string path = line.substr(begin);
    if (is_segment(path)) segments_.insert(path);
    const std::optional<SessionFolder> folder = session_folder(path);
    if (folder && members_.contains(folder->mpirun)) folders_.insert(folder->path);
  }
}

void JobFiles::remove() {
  std::error_code ignored;
  for (const std::string& segment : segments_) std::filesystem::remove(segment, ignored);
  for (const std::string& folder : folders_) std::filesystem::remove_all(folder, ignored);
  segments_.clear();
  folders_.clear();
}

}  // namespace tp
