#include "parallel/machine/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

// A mounted hierarchy of groups. In cgroups v2, all controllers share one hierarchy.
struct Mount {
  bool is_version_2 = true;
  fs::path top;  // topmost visible group; a container may see only part of the hierarchy
  fs::path folder;
};

bool has_word(std::string_view words, std::string_view word) {
  return fmt::format(",{},", words).find(fmt::format(",{},", word)) != std::string::npos;
}

std::vector<Mount> mounts_with(std::string_view controller, const fs::path& root) {
  std::vector<Mount> found;
  std::ifstream file(root / "proc/self/mountinfo");
  // Format of a line: 35 31 0:32 TOP FOLDER options [tags] - type source options
  for (std::string line; std::getline(file, line);) {
    const std::size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream before(line.substr(0, separator));
    std::istringstream behind(line.substr(separator + 3));
    std::string skipped, top, folder, type, options;
    before >> skipped >> skipped >> skipped >> top >> folder;
    behind >> type >> skipped >> options;
    if (type == "cgroup2" || (type == "cgroup" && has_word(options, controller)))
      found.push_back({type == "cgroup2", top, root / fs::path(folder).relative_path()});
  }
  return found;
}

// This process's group in a hierarchy. /proc/self/cgroup contains "0::/user.slice" in v2 and
// "4:cpu,cpuacct:/user.slice" in v1.
std::optional<fs::path> group_in(const Mount& mount, std::string_view controller, const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (mount.is_version_2 ? controllers.empty() : has_word(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// The CPU time allowed per period, in processors. In v2, one file contains "200000 100000", or "max 100000"
// if there is no limit. In v1, there are two files; a quota of -1 means no limit.
std::optional<double> quota_of(const ControlGroup& group) {
  double quota = 0;
  double period = 0;
  if (group.is_version_2) {
    std::ifstream(group.folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  std::vector<ControlGroup> groups;
  for (const Mount& mount : mounts_with(controller, root)) {
    const std::optional<fs::path> group = group_in(mount, controller, root);
    if (!group) continue;
    groups.push_back({mount.top, mount.folder, mount.is_version_2});
    // A group outside the mount belongs to the container's host.
    const fs::path below = group->lexically_relative(mount.top);
    if (below.empty() || below == "." || *below.begin() == "..") continue;
    for (const fs::path& name : below) {
      const ControlGroup& outer = groups.back();
      groups.push_back({outer.name / name, outer.folder / name, mount.is_version_2});
    }
  }
  return groups;
}

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> min;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    if (const std::optional<double> quota = quota_of(group)) min = std::min(min.value_or(*quota), *quota);
  }
  return min;
}

}  // namespace tp
