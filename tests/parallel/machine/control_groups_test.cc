#include "parallel/machine/control_groups.h"

#include "tests/temporary_directory.h"

#include <fstream>

#include <gtest/gtest.h>

namespace tp {
namespace {

// A file system with proc and sys, as seen by a process in control groups.
class Host {
 public:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  std::filesystem::path root() const { return directory_.path(); }

 private:
  test::TemporaryDirectory directory_;
};

TEST(CpuQuota, IsTheMinimumOfAGroupAndItsParents) {
  const Host host;
  host.write("proc/self/cgroup", "0::/user.slice/job_7/step_0\n");
  host.write("proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
  host.write("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  host.write("sys/fs/cgroup/user.slice/job_7/cpu.max", "250000 100000\n");
  host.write("sys/fs/cgroup/user.slice/job_7/step_0/cpu.max", "800000 100000\n");
  EXPECT_EQ(cpu_quota(host.root()), 2.5);
}

TEST(CpuQuota, IsFoundAtAContainersMount) {
  const Host host;
  host.write("proc/self/cgroup", "3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n");
  host.write(
      "proc/self/mountinfo",
      "40 35 0:33 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
      "41 35 0:34 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:9 - cgroup cgroup rw,cpu,cpuacct\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(cpu_quota(host.root()), 3.0);
  host.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpu_quota(host.root()), std::nullopt);
}

TEST(CpuQuota, IsMissingWithoutControlGroups) { EXPECT_EQ(cpu_quota(Host().root()), std::nullopt); }

TEST(ControlGroups, AreNamedOutermostFirst) {
  const Host host;
  host.write("proc/self/cgroup", "4:memory:/slurm/job_7\n0::/\n");
  host.write("proc/self/mountinfo",
             "36 35 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "37 35 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  std::vector<std::string> names;
  for (const ControlGroup& group : control_groups("memory", host.root())) {
    names.push_back(group.name.string() + (group.is_version_2 ? " 2 " : " 1 ") +
                    group.folder.lexically_relative(host.root()).string());
  }
  EXPECT_EQ(names, std::vector<std::string>(
                       {"/ 1 sys/fs/cgroup/memory", "/slurm 1 sys/fs/cgroup/memory/slurm",
                        "/slurm/job_7 1 sys/fs/cgroup/memory/slurm/job_7", "/ 2 sys/fs/cgroup/unified"}));
}

}  // namespace
}  // namespace tp
