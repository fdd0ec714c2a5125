#include "runtime/gateway/job_files.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace tp {
namespace {

// Whether it is a segment of Open MPI or of this program ("tp-infer-PID-NUMBER"). A model's files may be in
// /dev/shm, too, and must stay.
bool is_segment(std::string_view path) {
  constexpr std::string_view kFolder = "/dev/shm/";
  constexpr std::string_view kOwn = "tp-infer-";
  if (!path.starts_with(kFolder)) return false;
  const std::string_view name = path.substr(kFolder.size());
  if (name.find('/') != name.npos) return false;
  if (name.starts_with("vader_segment.") || name.starts_with("sm_segment.")) return true;
  return name.starts_with(kOwn) && name.substr(kOwn.size()).find_first_not_of("0123456789-") == name.npos;
}

struct SessionFolder {
  std::string path;
  pid_t mpirun = 0;
};

// The session folder of an mpirun in which the file lies: /tmp/ompi.host.0/pid.17 in Open MPI 4,
// /tmp/prterun.host.17.0 in Open MPI 5.
std::optional<SessionFolder> session_folder(const std::string& file) {
  static const std::regex kSession(
      R"((/.*/(?:ompi\.[^/]*/pid\.|prterun\.[^/]*\.(?=\d+\.))(\d+)(?:\.\d+)?)/.*)");
  std::smatch found;
  if (!std::regex_match(file, found, kSession)) return std::nullopt;
  return SessionFolder{found[1], static_cast<pid_t>(std::strtol(found.str(2).c_str(), nullptr, 10))};
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
