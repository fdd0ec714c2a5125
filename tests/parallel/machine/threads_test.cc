// The cores and threads of ranks under every variable, mask and limit.
#include "tests/expect_contains.h"
#include "tests/launch/process.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace tp::test {
namespace {

struct RankRow {
  std::size_t cores = 0;
  std::size_t threads = 0;
  std::size_t team = 0;  // threads of a parallel region
};

struct Found {
  std::vector<RankRow> ranks;
  std::string err;
};

// Runs the probe after `launcher`, and reads its rows: "rank 0 cores 2 threads 2 team 2".
Found found_after(std::vector<std::string> launcher) {
  // CTest sets OMP_NUM_THREADS.
  launcher.insert(launcher.begin(), {"env", "-u", "OMP_NUM_THREADS"});
  launcher.insert(launcher.end(), {TP_RANK_PROBE, "cores"});
  const Finished finished = Process(launcher).finish(120);
  EXPECT_EQ(finished.status, 0) << finished.err;
  Found found;
  found.err = finished.err;
  std::istringstream words(finished.out);
  std::string word;
  std::size_t rank = 0;
  for (RankRow row; words >> word >> rank >> word >> row.cores >> word >> row.threads >> word >> row.team;)
    found.ranks.push_back(row);
  return found;
}

std::vector<int> allowed() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof(mask), &mask);
  std::vector<int> processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &mask)) processors.push_back(processor);
  }
  return processors;
}

// Returns the cores of this process, which other tests have not limited.
std::size_t own_cores() {
  static const std::size_t cores = found_after({}).ranks.at(0).cores;
  return cores;
}

void expect_contains(const std::string& text, const std::string& part) { EXPECT_CONTAINS(text, part); }

constexpr const char* kNoNotice = "";

struct Row {
  std::vector<std::string> launcher;
  std::size_t cores;    // cores of rank 0
  std::size_t threads;  // threads of rank 0
  std::string notice = kNoNotice;
};

// Also expects no notice if the row has none.
void expect_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(row.launcher, " ")));
    const Found found = found_after(row.launcher);
    ASSERT_FALSE(found.ranks.empty()) << found.err;
    EXPECT_EQ(found.ranks[0].cores, row.cores) << found.err;
    EXPECT_EQ(found.ranks[0].threads, row.threads) << found.err;
    EXPECT_EQ(found.ranks[0].team, row.threads) << found.err;
    if (row.notice == kNoNotice) {
      EXPECT_EQ(found.err.find("notice: "), std::string::npos) << found.err;
    } else {
      expect_contains(found.err, row.notice);
    }
  }
}

TEST(SlurmFence, IsMentionedIfRanksOnSeveralNodesDoNotWait) {
  const auto notices = [](const std::vector<std::string>& variables) {
    std::vector<std::string> words = {"env",         "SLURM_STEP_ID=0",        "SLURM_PROCID=0",
                                      "PMIX_RANK=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NUM_NODES=2"};
    words.insert(words.end(), variables.begin(), variables.end());
    return found_after(words).err;
  };
  const std::string advice = "export SLURM_PMIX_FENCE=ring before srun";
  expect_contains(notices({}), advice);
  expect_contains(notices({"SLURM_PMIX_FENCE=tree"}), advice);
  EXPECT_EQ(notices({"SLURM_PMIX_FENCE=ring"}), "");
  EXPECT_EQ(notices({"SLURM_STEP_NUM_NODES=1"}), "");
  EXPECT_EQ(notices({"PMIX_RANK="}), "");  // PMI-2 has a different barrier
  EXPECT_EQ(notices({"SLURM_STEP_ID="}), "");
  EXPECT_EQ(notices({"OMPI_COMM_WORLD_SIZE=1"}), "");
}

bool has_program(const char* name) { return Process({"which", name}).finish().status == 0; }

class Threads : public testing::Test {
 protected:
  void SetUp() override {
    if (own_cores() < 2) GTEST_SKIP() << "one core cannot be shared";
  }
  const std::size_t all = own_cores();
  const std::string first = std::to_string(allowed().front());
  const std::string list = fmt::format("{}", fmt::join(allowed(), " "));
};

TEST_F(Threads, UseAllPlacesOfOpenMp) {
  expect_rows({{{"env", "OMP_PROC_BIND=true"}, all, all},
               {{"env", "OMP_PROC_BIND=close"}, all, all},
               {{"env", "OMP_PROC_BIND=spread"}, all, all},
               {{"env", "OMP_PROC_BIND=false"}, all, all},
               {{"env", "OMP_PROC_BIND=false", "OMP_PLACES=cores"}, all, all},
               {{"env", "OMP_PROC_BIND=close", "OMP_PLACES=threads"}, all, all},
               {{"env", "OMP_PROC_BIND=close", "OMP_PLACES=cores"}, all, all},
               {{"env", "OMP_PLACES=cores"}, all, all},
               {{"env", "OMP_PLACES=sockets"}, all, all},
               {{"env", "OMP_PLACES={" + first + "}"}, 1, 1},
               {{"env", "GOMP_CPU_AFFINITY=" + list}, all, all},
               {{"env", "GOMP_CPU_AFFINITY=" + first}, 1, 1},
               {{"env", "KMP_AFFINITY=compact"}, all, all}});
}

TEST_F(Threads, OnOnePlaceOfManyAreMentioned) {
  expect_rows({{{"env", "OMP_PROC_BIND=master"}, 1, 1, "; set OMP_PROC_BIND=close, or unset it"}});
}

TEST_F(Threads, FollowOpenMpsNumbersAndLimits) {
  expect_rows({{{"env", "OMP_NUM_THREADS=1"}, all, 1},
               {{"env", "OMP_NUM_THREADS=1,2"}, all, 1},
               {{"env", "OMP_NUM_THREADS=nonsense"}, all, all},
               {{"env", fmt::format("OMP_NUM_THREADS={}", all + 1)}, all, all + 1, "oversubscribed"},
               {{"env", "OMP_THREAD_LIMIT=1"}, all, 1},
               {{"env", "OMP_THREAD_LIMIT=1", "OMP_NUM_THREADS=2"}, all, 1},
               {{"env", "OMP_DYNAMIC=true", fmt::format("OMP_NUM_THREADS={}", all + 1)},
                all,
                all + 1,
                "oversubscribed"},
               {{"env", "OMP_MAX_ACTIVE_LEVELS=0"}, all, all}});
  const Finished refused = Process({"env", "OMP_THREAD_LIMIT=1", TP_RANK_PROBE, "cores", "2"}).finish();
  EXPECT_EQ(refused.status, 1);
  expect_contains(refused.err,
                  "cannot run 2 threads: expected at most 1, the limit in OMP_THREAD_LIMIT; change the "
                  "limit, or unset it");
}

TEST_F(Threads, StayWithinTheMaskThatTheProcessInherits) {
  std::vector<Row> rows = {{{"taskset", "-c", first}, 1, 1},
                           {{"taskset", "-c", first, "env", "OMP_PROC_BIND=close"}, 1, 1}};
  if (has_program("numactl")) rows.push_back({{"numactl", "-C", first}, 1, 1});
  expect_rows(rows);
}

// A control group of this test, with one limit. Versions 1 and 2 have different files.
class Group {
 public:
  Group(const std::string& controller, const std::string& old_file, const std::string& new_file,
        const std::string& old_value, const std::string& new_value) {
    namespace fs = std::filesystem;
    const fs::path top = "/sys/fs/cgroup";
    const bool is_old = fs::is_directory(top / controller);
    folder_ = (is_old ? top / controller : top) / fmt::format("tp-infer-test-{}", ::getpid());
    std::error_code error;
    if (!fs::create_directory(folder_, error)) return;
    if (is_old && controller == "cpuset")
      std::ofstream(folder_ / "cpuset.mems") << std::ifstream(top / controller / "cpuset.mems").rdbuf();
    std::ofstream limit(folder_ / (is_old ? old_file : new_file));
    is_usable_ = fs::exists(folder_ / (is_old ? old_file : new_file)) &&
                 static_cast<bool>(limit << (is_old ? old_value : new_value) << std::flush);
  }
  ~Group() {
    std::error_code ignored;
    std::filesystem::remove(folder_, ignored);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool is_usable() const { return is_usable_; }
  std::vector<std::string> launcher() const {
    return {"sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", (folder_ / "cgroup.procs").string()};
  }

 private:
  std::filesystem::path folder_;
  bool is_usable_ = false;
};

TEST_F(Threads, StayWithinTheQuotaOfAControlGroup) {
  const Group group("cpu", "cpu.cfs_quota_us", "cpu.max", "100000", "100000 100000");
  if (!group.is_usable()) GTEST_SKIP() << "control groups of processors cannot be made";
  expect_rows({{group.launcher(), all, 1}});
}

TEST_F(Threads, StayWithinTheProcessorsOfAControlGroup) {
  const Group group("cpuset", "cpuset.cpus", "cpuset.cpus", first, first);
  if (!group.is_usable()) GTEST_SKIP() << "control groups with a set of processors cannot be made";
  expect_rows({{group.launcher(), 1, 1}});
}

TEST_F(Threads, DivideTheCoresThatRanksShare) {
  const std::string mpirun = TP_MPIRUN_PROGRAM;
  const std::vector<std::string> two = {mpirun, "-H", "localhost:2", "-np", "2"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::size_t half = all / 2;
  expect_rows({{with(two, {"--bind-to", "none"}), all, half},
               {with(two, {"--bind-to", "core"}), 1, 1},
               {two, half, half},
               {with(two, {"-x", "OMP_PROC_BIND=false"}), half, half},
               {with(two, {"--bind-to", "none", "-x", "OMP_PROC_BIND=close"}), all, half,
                "OpenMP binds the threads of 2 ranks on "},
               {with(with({"taskset", "-c", first}, two), {"--bind-to", "none"}), 1, 1,
                "run 2 threads on 1 core: oversubscribed; start fewer ranks"},
               {with(two, {"--bind-to", "none", "-x", fmt::format("OMP_NUM_THREADS={}", all)}), all, all,
                fmt::format("run {} threads on {} cores: oversubscribed; lower the number of threads",
                            2 * all, all)}});
}

// numactl -N 0 on a host with several sockets: hwloc reports 16 cores, and the mask contains fewer.
TEST_F(Threads, AreFewerIfRanksShareAPartOfAHost) {
  if (allowed().back() >= 16) GTEST_SKIP() << "the synthetic host has 16 cores";
  const std::size_t cores = allowed().size();
  const std::size_t ranks = 2 * cores;
  expect_rows({{{"env", "HWLOC_SYNTHETIC=pack:2 core:8 pu:1", "HWLOC_THISSYSTEM=1", TP_MPIRUN_PROGRAM, "-H",
                 fmt::format("localhost:{}", ranks), "-np", std::to_string(ranks), "--bind-to", "none"},
                cores,
                1,
                fmt::format("{} ranks on ", ranks)},
               {{"env", "HWLOC_SYNTHETIC=pack:2 core:8 pu:1", "HWLOC_THISSYSTEM=1", TP_MPIRUN_PROGRAM, "-H",
                 fmt::format("localhost:{}", cores), "-np", std::to_string(cores), "--bind-to", "none"},
                cores,
                1}});
}

TEST_F(Threads, OnOneCoreOfManyAreMentionedWithTheOptionOfTheLauncher) {
  const std::vector<std::string> srun = {"env", "SLURM_STEP_ID=0", "SLURM_PROCID=0",
                                         "SLURM_STEP_NUM_TASKS=1"};
  const auto task = [&](const std::vector<std::string>& variables, bool is_bound) {
    std::vector<std::string> words = srun;
    words.insert(words.end(), variables.begin(), variables.end());
    if (is_bound) words.insert(words.end(), {"taskset", "-c", first});
    return words;
  };
  expect_rows(
      {{task({"SLURM_JOB_CPUS_PER_NODE=4096(x2),32"}, true), 1, 1, "; give srun --cpus-per-task="},
       {task({}, true), 1, 1, fmt::format("; give srun --cpus-per-task={}", all)},
       {task({"SLURM_CPUS_PER_TASK=1"}, true), 1, 1},
       {task({"SLURM_CPUS_PER_TASK=1"}, false), all, 1},
       {task({}, false), all, all},
       {{TP_MPIRUN_PROGRAM, "-np", "1", "-x", "OMP_PROC_BIND=close"}, 1, 1, "; give mpirun --bind-to none"},
       {{TP_MPIRUN_PROGRAM, "-np", "1", "--bind-to", "core"}, 1, 1},
       {{TP_MPIRUN_PROGRAM, "-np", "1"}, all, all}});
}

}  // namespace
}  // namespace tp::test
