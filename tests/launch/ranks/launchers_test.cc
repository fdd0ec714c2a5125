// A rank's information from mpirun and srun: the cores that it may use, and whether it can find the other
// ranks.

#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/temporary_directory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp::test {
namespace {

// Runs a command after `launcher` and returns the rank map from stderr.
std::string rank_map(std::vector<std::string> launcher, const Arguments& options = {}) {
  launcher.insert(launcher.end(),
                  {TP_INFER_PROGRAM, "generate", "--prompt", "Hello", "--max-tokens", "1", "--verbose"});
  launcher.insert(launcher.end(), options.begin(), options.end());
  const Finished finished = Process(launcher).finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  return finished.err;
}

// Returns the threads of rank 0: the fourth word of its row, "   0  host   2   2 ...".
std::size_t threads_in(const std::string& map) {
  std::istringstream row(map.substr(map.find("\n   0  ")));
  std::string rank, host, cores;
  std::size_t threads = 0;
  row >> rank >> host >> cores >> threads;
  return threads;
}

TEST(Binding, ByDefaultIsWidenedToTheRanksShareOfTheHost) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor cannot be shared";
  EXPECT_CONTAINS(rank_map({TP_MPIRUN_PROGRAM, "-np", "1"}),
                  "mpirun bound each rank to 1 of the host's cores by default");
}

TEST(Binding, ByOptionStays) {
  const std::string map = rank_map({TP_MPIRUN_PROGRAM, "-np", "1", "--bind-to", "core"});
  EXPECT_EQ(map.find("by default"), std::string::npos) << map;
}

TEST(Threads, FollowOpenMpsVariable) {
  EXPECT_EQ(threads_in(rank_map({"env", "OMP_NUM_THREADS=3"})), 3U);
  EXPECT_EQ(threads_in(rank_map({"env", "OMP_NUM_THREADS=3"}, {"--threads", "1"})), 1U);
}

TEST(Threads, StayWithinSlurmsTask) {
  EXPECT_EQ(threads_in(rank_map({"env", "-u", "OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK=1"})), 1U);
}

TEST(Threads, OversubscriptionIsReported) {
  const auto hint_of = [&](std::size_t threads) {
    return rank_map({}, {"--threads", std::to_string(threads)}).find("oversubscribed") != std::string::npos;
  };
  EXPECT_FALSE(hint_of(1));
  EXPECT_TRUE(hint_of(std::thread::hardware_concurrency() + 1));
}

// Returns the command of a task that srun starts without --mpi=pmix.
std::vector<std::string> srun_task(const std::string& rank, const std::string& size) {
  return {"env", "SLURM_STEP_ID=0", "SLURM_STEPID=0", "SLURM_PROCID=" + rank, "SLURM_STEP_NUM_TASKS=" + size};
}

Finished start_task(const char* rank) {
  std::vector<std::string> command = srun_task(rank, "2");
  command.insert(command.end(), {TP_INFER_PROGRAM, "generate", "--prompt", "Hello"});
  return Process(command).finish();
}

TEST(Srun, WithoutPmixIsOneLineThatSaysWhatToDo) {
  expect_one_line(start_task("0"), 1,
                  "cannot start 2 ranks: expected PMIx from srun, found none; start with srun --mpi=pmix");
  const Finished other = start_task("1");
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.err, "");
}

TEST(Srun, NeedsNoPmixForOneTask) {
  std::vector<std::string> launcher = srun_task("0", "1");
  launcher.insert(launcher.end(), {"SLURM_JOBID=1", "SLURM_NODELIST=localhost"});
  rank_map(launcher);
}

TEST(Srun, AllowsAScriptThatCallsMpirun) {
  std::vector<std::string> command = srun_task("0", "2");
  const Arguments arguments = {"generate", "--prompt", "Hello", "--max-tokens", "1"};
  for (const std::string& word : command_line(2, arguments)) command.push_back(word);
  EXPECT_EQ(Process(command).finish().status, 0);
}

const Arguments kShortAnswer = {TP_INFER_PROGRAM, "generate", "--prompt", "Hello", "--max-tokens", "1"};

Finished run_after(std::vector<std::string> launcher, const Arguments& program) {
  launcher.insert(launcher.end(), program.begin(), program.end());
  return Process(launcher).finish();
}

TEST(WrongLauncher, IsNamedByTheVariablesThatItGivesItsRanks) {
  struct Row {
    std::string size, rank, name;
  };
  for (const Row& row :
       {Row{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE=2)"},
        Row{"PMI_SIZE", "PMI_RANK", "the mpiexec of MPICH or Intel MPI (PMI_SIZE=2)"},
        Row{"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "the mpiexec of MPICH or Intel MPI (MPI_LOCALNRANKS=2)"},
        Row{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MVAPICH's mpirun_rsh (MV2_COMM_WORLD_SIZE=2)"}}) {
    SCOPED_TRACE(row.size);
    for (const Arguments& program : {kShortAnswer, Arguments{TP_INFER_PROGRAM, "plan"}})
      expect_one_line(run_after({"env", row.size + "=2", row.rank + "=0"}, program), 1,
                      "found a rank that " + row.name + " started; start with the mpirun of ");
  }
  const Finished other = run_after({"env", "PMI_SIZE=2", "PMI_RANK=1"}, kShortAnswer);
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.out + other.err, "") << "only the first rank reports the error";
}

TEST(WrongLauncher, IsFoundAmongTheAncestorsOfRanksWithoutVariables) {
  const Finished finished =
      run_after({TP_MPIRUN_PROGRAM, "--oversubscribe", "-np", "2", "env", "-i"}, kShortAnswer);
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.out, "");
  const std::string err = without_mpi_noise(finished.err);
  EXPECT_EQ(lines_of(err).size(), 1U) << err;
  EXPECT_CONTAINS(err,
                  "tp-infer: cannot find the other ranks: expected the environment variables that Open MPI's "
                  "mpirun gives each rank, found none; ");
}

TEST(WrongLauncher, IsNotReportedForOneProcess) {
  const std::vector<std::vector<std::string>> launchers = {
      {TP_MPIRUN_PROGRAM, "-np", "1", "env", "-i"},
      {"env", "SLURM_JOB_ID=7", "SLURM_NTASKS=8", "SLURM_PROCID=0"},  // a script of sbatch
      {"env", "SLURM_JOB_ID=7", "SLURM_NTASKS=8"},                    // a shell of salloc
      {"env", "SLURM_JOB_ID=7", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"},
      {"env", "PMI_SIZE=1", "PMI_RANK=0"}};
  for (const std::vector<std::string>& launcher : launchers) {
    const Finished finished = run_after(launcher, kShortAnswer);
    EXPECT_EQ(finished.status, 0) << launcher[1] << " " << finished.err;
  }
}

// Runs a sample with a launcher that only prints its arguments.
Finished run_sample(const std::string& sample, const Arguments& arguments) {
  const TemporaryDirectory directory;
  const auto add_program = [&](const char* name, const std::string& script) {
    const std::filesystem::path file = directory.write(name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  };
  for (const char* launcher : {"mpirun", "srun"})
    add_program(launcher, "printf '%s|' \"$@\" \"SLURM_PMIX_FENCE=$SLURM_PMIX_FENCE\"\n");
  // A gateway that prints its commands and the environment that its jobs inherit.
  add_program("tp-infer", "printf '%s|' \"$@\" \"SLURM_PMIX_FENCE=$SLURM_PMIX_FENCE\"; cat */gateway.json\n");
  add_program("sinfo", "printf '2 16\\n2 4\\n'\n");  // sockets, and cores of a socket
  std::vector<std::string> command = {"bash", std::string(TP_SOURCE_FOLDER) + "/launch/samples/" + sample};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command,
                 {.folder = directory.path(),
                  .variables = {"PATH=" + directory.path().string() + ":" + std::getenv("PATH"),
                                "SLURM_JOB_ID=7", "SLURM_CPUS_ON_NODE=8", "SLURM_NTASKS_PER_NODE=2"}})
      .finish();
}

TEST(Samples, PassOptionsOnAndSayHowTheyAreUsed) {
  const std::string hosts = std::string(TP_SOURCE_FOLDER) + "/launch/samples/hostfile";
  const Finished run = run_sample("several-hosts.sh", {hosts, "model", "Once upon", "--seed", "7"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_CONTAINS(run.out, "|generate|--model|model|--prompt|Once upon|--verbose|--seed|7|");
  EXPECT_CONTAINS(run_sample("slurm.sbatch", {"model", "in", "out", "--resume"}).out,
                  "|--batch|in|--output|out|--verbose|--resume|");
  EXPECT_CONTAINS(run_sample("slurm.sbatch", {"model", "in"}).out,
                  "|--output|continuations-7.jsonl|--verbose|");
  for (const char* sample : {"several-hosts.sh", "slurm.sbatch"}) {
    const Finished bare = run_sample(sample, {});
    EXPECT_EQ(bare.status, 2);
    EXPECT_TRUE(bare.err.starts_with("usage: ")) << bare.err;
  }
}

TEST(Samples, WithSrunGiveEachRankItsCoresAndWaitForAllRanks) {
  for (const auto& [sample, nodes] : std::vector<std::pair<std::string, std::string>>{
           {"slurm.sbatch", ""}, {"serve.sbatch", ""}, {"gateway-slurm.sh", "--nodes=2"}}) {
    SCOPED_TRACE(sample);
    const Finished finished = run_sample(sample, {"model", "in"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_CONTAINS(finished.out, "--mpi=pmix");
    EXPECT_CONTAINS(finished.out, "--cpus-per-task=4");  // two ranks on eight cores
    EXPECT_CONTAINS(finished.out, "SLURM_PMIX_FENCE=ring|");
    EXPECT_CONTAINS(finished.out, nodes);
  }
  // No other sample calls srun.
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TP_SOURCE_FOLDER) + "/launch/samples")) {
    std::ifstream file(entry.path());
    bool calls = false;
    for (std::string line; std::getline(file, line);)
      calls = calls || (!line.starts_with('#') && line.find("srun --") != std::string::npos);
    count += calls && entry.path().extension() != ".md" ? 1 : 0;
  }
  EXPECT_EQ(count, 3U);
}

TEST(Starting, ReportsAMissingRankAndEndsAfterTheTimeout) {
  const std::vector<std::string> command =
      by_rank({TP_MPIRUN_PROGRAM, "--oversubscribe", "-np", "2"},
              {{TP_INFER_PROGRAM, "generate", "--prompt", "x", "--timeout", "2"}, {"sleep", "30"}});
  const Finished finished = Process(command, {.variables = {"TP_PATIENCE=1"}}).finish();
  EXPECT_NE(finished.status, 0);
  EXPECT_EQ(finished.out, "");
  EXPECT_CONTAINS(finished.err, "tp-infer: waited 1 s for the other ranks to start; ");
  EXPECT_CONTAINS(finished.err,
                  "tp-infer: waited 2 s for the other ranks to start, more than --timeout allows; ");
}

// mkdir fails in /proc like on a full or read-only disk. All processes would share Open MPI's folder, so a
// file takes its name here.
TEST(Starting, NeedsNoTemporaryFolderForOneProcess) {
  const Arguments arguments = {"generate", "--prompt", "x", "--max-tokens", "1"};
  expect_success(run(kNoMpirun, arguments, {.variables = {"TMPDIR=/proc"}}));
  char host[256] = "";
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  const std::string name = std::string(host).substr(0, std::string(host).find('.'));
  const TemporaryDirectory folder;
  folder.write("ompi." + name + "." + std::to_string(geteuid()), "");
  expect_success(run(kNoMpirun, arguments, {.variables = {"TMPDIR=" + folder.path().string()}}));
}

// Open MPI 4.1.4 counts the same slots (mpirun --hostfile FILE --display-allocation --do-not-launch), except
// that it gives a host without slots one slot per core.
TEST(SeveralHosts, StartsTheRanksOfTheHostfile) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"n1 slots=2 max-slots=8\n", "2"},
      {"n1 max_slots=8 slots=2\n", "2"},
      {"n1 max-slots=6\nn2 slots=2\n", "8"},
      {"  # n0 slots=4\nn1 slots=2\n\t#n2 slots=4\n", "2"},
      {"n1 slots=2 # slots=4\nn2 slots=3 // slots=5", "5"},
      {"n1 slots = 2\nn2 slots= 3\n\nn3 slots =1\n", "6"},
      {"n1\nn2\n", "2"},
      {"n1\nn1\nn2\n", "3"},
      {"user@n1 slots=2\n  10.0.0.1\tslots=1\n", "3"},
      {"n1 username=slots slots=2\n", "2"},
      {"n1 cpu=2\nn2 count=3\n", "5"},
  };
  const TemporaryDirectory folder;
  const auto run_with = [&](const std::string& hostfile) {
    return run_sample("several-hosts.sh", {folder.write("hosts", hostfile), "model", "Hello"});
  };
  for (const auto& [hostfile, ranks] : cases) {
    SCOPED_TRACE(hostfile);
    const Finished finished = run_with(hostfile);
    expect_success(finished);
    EXPECT_CONTAINS(finished.out, "|-np|" + ranks + "|");
  }
  for (const char* hostfile : {"", "# n1 slots=2\n"}) {
    const Finished finished = run_with(hostfile);
    EXPECT_EQ(finished.status, 2);
    EXPECT_CONTAINS(finished.err,
                    "expected a line per host, such as \"node1 slots=2\", found none; add them");
  }
}

}  // namespace
}  // namespace tp::test
