// The control groups that this process is in: a container, a Slurm job, a service, each with limits of its
// own.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

struct ControlGroup {
  std::filesystem::path name;    // "/user.slice/job_7"
  std::filesystem::path folder;  // with its limits: "/sys/fs/cgroup/user.slice/job_7"
  bool is_version_2 = true;      // of Linux' control groups: the files in the folder differ
};

// The groups with the limits of a controller ("cpu", "memory"), outermost first: each limits what is within
// it. Of version 1 and 2, as far as a container sees them. `root` holds proc and sys, for tests.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

// The processors' worth of time that the processes of the groups may use together, for example 2.5. Nothing
// where there is no limit.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tp
