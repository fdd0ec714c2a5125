// The control groups (cgroups) of this process. Containers, Slurm jobs and services run in control groups
// with limits.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

struct ControlGroup {
  std::filesystem::path name;    // "/user.slice/job_7"
  std::filesystem::path folder;  // folder of its limits: "/sys/fs/cgroup/user.slice/job_7"
  bool is_version_2 = true;      // cgroup v2; the two versions have different files
};

// The groups of a controller ("cpu", "memory"), outermost first. The limits of all groups apply. Finds
// cgroups v1 and v2; in a container, only the groups visible there. `root` contains proc and sys; tests pass
// another folder.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

// The lowest CPU quota of the groups, in processors (2.5, for example). All processes of a group share its
// quota. Nothing if there is no limit.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tp
