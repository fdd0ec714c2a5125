// The control groups (cgroups) of this process: of a container, a Slurm job or a service, each with its
// limits.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

struct ControlGroup {
  std::filesystem::path name;    // "/user.slice/job_7"
  std::filesystem::path folder;  // with its limits: "/sys/fs/cgroup/user.slice/job_7"
  bool is_version_2 = true;      // cgroup v2; the two versions have different files
};

// The groups of a controller ("cpu", "memory"), outermost first; the limits of all of them apply. Finds
// cgroups v1 and v2, as far as a container can see them. `root` contains proc and sys; tests pass another
// folder.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

// The CPU quota that the processes of the groups share, in processors: 2.5, for example. Nothing without a
// limit.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tp
