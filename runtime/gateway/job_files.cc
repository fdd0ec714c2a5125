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

// A whole number without anything around it; 0 if it is none.
pid_t process_in(std::string_view digits) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  return error == std::errc() && end == digits.data() + digits.size() ? process : 0;
}

// The folder of an mpirun's session: the part up to "pid.17" of "FOLDER/ompi.host.0/pid.17/hwloc.sm" (Open
// MPI 4), or up to "prterun.host.17.0" of "FOLDER/prterun.host.17.0/1/memory" (Open MPI 5).
std::optional<SessionFolder> session_folder(std::string_view path) {
  constexpr std::string_view kProcess = "/pid.";
  constexpr std::string_view kPrterun = "/prterun.";
  SessionFolder folder;
  std::size_t begin = path.find("/ompi.");
  if (begin != path.npos) {
    begin = path.find('/', begin + 1);
    if (begin == path.npos || !path.substr(begin).starts_with(kProcess)) return std::nullopt;
  } else if (begin = path.find(kPrterun); begin == path.npos) {
    return std::nullopt;
  }
  const std::size_t end = path.find('/', begin + 1);
  if (end == path.npos) return std::nullopt;
  std::string_view name = path.substr(begin + 1, end - begin - 1);
  if (!name.starts_with("pid.")) name = name.substr(0, name.rfind('.'));  // without the user's number
  folder.mpirun = process_in(name.substr(name.rfind('.') + 1));
  folder.path = std::string(path.substr(0, end));
  return folder.mpirun == 0 ? std::nullopt : std::optional(folder);
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
