// Memory available within control groups, read from file trees like those of kernels and containers.
#include "parallel/machine/available_memory.h"

#include "tests/temporary_directory.h"

#include <functional>

#include <gtest/gtest.h>

namespace tp {
namespace {

class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest() {
    write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 8000 kB\n");
  }

  void write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((root_.path() / path).parent_path());
    root_.write(path, content);
  }
  // A mount of control groups in the process's view.
  void mount(const std::string& top, const std::string& point, const std::string& type) const {
    write("proc/self/mountinfo",
          "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
          "30 22 0:26 " +
              top + " " + point + " rw,nosuid shared:9 - " + type + "\n");
  }
  // Adds a group of version 2.
  void group(const std::string& folder, const std::string& max, std::size_t current,
             std::size_t page_cache = 0) const {
    write(folder + "/memory.max", max + "\n");
    write(folder + "/memory.high", "max\n");
    write(folder + "/memory.current", std::to_string(current) + "\n");
    write(folder + "/memory.stat", "anon 5\nfile 900\ninactive_file " + std::to_string(page_cache / 2) +
                                       "\nactive_file " + std::to_string(page_cache - page_cache / 2) + "\n");
  }
  void expect(std::uint64_t bytes, const std::string& limit) const {
    const AvailableMemory found = available_memory(root_.path());
    EXPECT_EQ(found.bytes, bytes);
    EXPECT_EQ(found.limit, limit);
  }

  test::TemporaryDirectory root_;
};

constexpr const char* kMount = "/sys/fs/cgroup";

TEST_F(AvailableMemoryTest, IsTheKernelsValueWithoutGroups) {
  expect(8000 << 10, "MemAvailable of /proc/meminfo");
}

TEST_F(AvailableMemoryTest, IsUnboundedIfTheSystemReportsNothing) {
  std::filesystem::remove(root_.path() / "proc/meminfo");
  EXPECT_EQ(available_memory(root_.path()).bytes, UINT64_MAX);
}

// Any group on the path may set the limit. A job's steps have no limits of their own.
TEST_F(AvailableMemoryTest, IsTheLeastThatTheGroupsOfVersion2Leave) {
  mount("/", kMount, "cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  group("sys/fs/cgroup/slurm", "8000000", 1000000);
  group("sys/fs/cgroup/slurm/job_7", "5000000", 1000000);
  group("sys/fs/cgroup/slurm/job_7/step_0", "max", 900000);
  expect(4000000, "memory.max of the cgroup /slurm/job_7");
  group("sys/fs/cgroup/slurm/job_7/step_0", "1000000", 900000);
  expect(100000, "memory.max of the cgroup /slurm/job_7/step_0");
  group("sys/fs/cgroup/slurm/job_7/step_0", "1000000", 1200000);
  expect(0, "memory.max of the cgroup /slurm/job_7/step_0");
}

TEST_F(AvailableMemoryTest, CountsPageCacheAsFree) {
  mount("/", kMount, "cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "5000000", 4500000, 4000000);
  expect(4500000, "memory.max of the cgroup /job");
}

TEST_F(AvailableMemoryTest, StaysBelowTheLimitWhereTheKernelSlowsAGroupDown) {
  mount("/", kMount, "cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "5000000", 1000000);
  write("sys/fs/cgroup/job/memory.high", "3000000\n");
  expect(2000000, "memory.high of the cgroup /job");
}

// Docker with a namespace: the container's group is the uppermost visible group.
TEST_F(AvailableMemoryTest, FindsTheGroupOfAContainerInItsOwnNamespace) {
  mount("/", kMount, "cgroup2 cgroup rw,nsdelegate");
  write("proc/self/cgroup", "0::/\n");
  group("sys/fs/cgroup", "2000000", 500000);
  expect(1500000, "memory.max of the cgroup /");
}

void write_version_1(const std::function<void(const std::string&, const std::string&)>& write,
                     const std::string& folder, const std::string& limit, const std::string& usage) {
  write(folder + "/memory.limit_in_bytes", limit);
  write(folder + "/memory.usage_in_bytes", usage);
  write(folder + "/memory.stat", "inactive_file 7\ntotal_inactive_file 100000\ntotal_active_file 200000\n");
}

TEST_F(AvailableMemoryTest, ReadsGroupsOfVersion1) {
  mount("/", "/sys/fs/cgroup/memory", "cgroup cgroup rw,memory");
  write("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/slurm/job_7\n0::/unified\n");
  const auto writer = [&](const std::string& path, const std::string& content) { write(path, content); };
  write_version_1(writer, "sys/fs/cgroup/memory", "9223372036854771712", "5000000");
  write_version_1(writer, "sys/fs/cgroup/memory/slurm", "9223372036854771712", "4000000");
  write_version_1(writer, "sys/fs/cgroup/memory/slurm/job_7", "6000000", "3000000");
  expect(3300000, "memory.limit_in_bytes of the cgroup /slurm/job_7");
}

// Docker without a namespace: the path is the host's, and the mount shows only the container's group and
// below.
TEST_F(AvailableMemoryTest, FindsTheGroupOfAContainerThatSeesItsHostsPath) {
  mount("/docker/abc", "/sys/fs/cgroup/memory", "cgroup cgroup rw,memory");
  const auto writer = [&](const std::string& path, const std::string& content) { write(path, content); };
  write_version_1(writer, "sys/fs/cgroup/memory", "4000000", "1300000");
  write("proc/self/cgroup", "4:memory:/docker/abc\n");
  expect(3000000, "memory.limit_in_bytes of the cgroup /docker/abc");
  write_version_1(writer, "sys/fs/cgroup/memory/inner", "2000000", "1300000");
  write("proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  expect(1000000, "memory.limit_in_bytes of the cgroup /docker/abc/inner");
}

// Both versions exist, and the memory controller belongs to the first.
TEST_F(AvailableMemoryTest, LooksAtBothHierarchiesOfAHybridSystem) {
  write("proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:memory:/job\n0::/job\n");
  write("sys/fs/cgroup/unified/job/cgroup.procs", "1\n");
  const auto writer = [&](const std::string& path, const std::string& content) { write(path, content); };
  write_version_1(writer, "sys/fs/cgroup/memory/job", "3000000", "1300000");
  expect(2000000, "memory.limit_in_bytes of the cgroup /job");
}

}  // namespace
}  // namespace tp
