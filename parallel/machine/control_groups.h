// The control groups (cgroups) of this process, which limit containers, Slurm jobs and services.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

struct ControlGroup {
  std::filesystem::path name;    // "/user.slice/job_7"
  std::filesystem::path folder;  // contains its limits: "/sys/fs/cgroup/user.slice/job_7"
  bool is_version_2 = true;      // cgroups v2, whose files differ from those of v1
};

// This process's groups for a controller ("cpu", "memory"), outermost first. The limits of all these groups
// apply. Supports cgroups v1 and v2. In a container, returns only the groups visible there. `root` is the
// folder that contains proc and sys; tests pass a fake one.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

// The lowest CPU quota of this process's groups, in processors (for example, 2.5). All processes of a group
// share its quota. nullopt if there is no limit.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tp
