// How the gateway ends lost jobs, and which of their files it removes.
#include "parallel/machine/file_text.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/serve/gateway_program.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
namespace fs = std::filesystem;

// On a busy machine, mpirun needs several seconds to end a job that has lost a rank. SIGTERM would crash it.
TEST(GatewayLosses, LeaveMpirunTheTimeToNameTheLostRank) {
  GatewayProgram gateway(
      {"sh", "-c",
       "trap 'echo \"tp-infer: SIGTERM came while the job was ending\" >&2; exit 9' TERM; $0; "
       "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; done; "
       "echo \"mpirun noticed that process rank 1 exited on signal 9\" >&2; exit 1",
       fake_command().front()});
  ASSERT_TRUE(gateway.is_ready());
  send_signal(gateway.member("fake_job"), SIGKILL);
  EXPECT_TRUE(comes_true([&] { return gateway.metric("restarts_total") == 1.0; }));
  const std::string log = gateway.end();
  EXPECT_NE(log.find("the job has ended: mpirun noticed that process rank 1 exited on signal 9; starting"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("SIGTERM came"), std::string::npos) << log;
}

// The job fills the pipe of the gateway's standard error, which the test reads only at the end.
TEST(GatewayLosses, AreLoggedWithoutWaitingForAReader) {
  GatewayProgram gateway({"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x >&2; exec " TP_FAKE_JOB});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(gateway.is_ready());
    EXPECT_EQ(gateway.post(kPath, {{"tokens", 3}}).events().size(), 4U);
    send_signal(gateway.member("fake_job"), SIGKILL);
    ASSERT_TRUE(comes_true([&] { return gateway.metric("restarts_total") == i + 1; }));
  }
  gateway.end();
}

TEST(GatewayLosses, DoNotHappenIfTheGatewayAndItsJobWereSuspendedTogether) {
  GatewayProgram gateway(fake_command(), {"--hang-seconds", "2"});
  ASSERT_TRUE(gateway.is_ready());
  auto answer = std::async(std::launch::async, [&] {
    return gateway.post(kPath, {{"tokens", 20}, {"delay_ms", 100}});
  });
  ASSERT_TRUE(comes_true([&] { return gateway.metric("kept_bytes") > 50; }));
  const std::vector<pid_t> all = {gateway.member("fake_job"), gateway.process().pid()};
  for (const pid_t process : all) send_signal(process, SIGSTOP);
  std::this_thread::sleep_for(5s);
  for (const pid_t process : all) send_signal(process, SIGCONT);
  EXPECT_EQ(answer.get().status, 200);
  EXPECT_EQ(gateway.metric("restarts_total"), 0.0);
  gateway.end();
}

// Returns Open MPI's files on this host: shared memory segments and session folders.
std::set<fs::path> open_mpi_files() {
  std::set<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev/shm", ignored)) {
    if (entry.path().filename().string().find("_segment.") != std::string::npos) files.insert(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(), ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("prterun.")) files.insert(entry.path());  // a session of Open MPI 5
    if (!name.starts_with("ompi.")) continue;
    for (const auto& session : fs::directory_iterator(entry.path(), ignored)) files.insert(session.path());
  }
  return files;
}

// Returns Open MPI's files that a rank of the job has mapped.
std::vector<fs::path> files_of_job(const GatewayProgram& gateway) {
  const std::string maps = file_text(fmt::format("/proc/{}/maps", gateway.member("tp-infer")));
  std::vector<fs::path> files;
  for (const fs::path& file : open_mpi_files()) {
    if (maps.find(file.string()) != std::string::npos) files.push_back(file);
  }
  return files;
}

TEST(GatewayLosses, RemoveOnlyTheJobsFilesOfOpenMpi) {
  const fs::path other = fmt::format("/dev/shm/vader_segment.other.{}", ::getpid());
  std::ofstream(other) << "another job's";
  // The job maps the model in /dev/shm, but a model is not a segment.
  const fs::path models = fmt::format("/dev/shm/tp-infer-models.{}", ::getpid());
  const fs::path demo = fs::path(TP_INFER_PROGRAM).parent_path().parent_path() / "share/tp-infer/demo";
  fs::copy(demo, models, fs::copy_options::recursive);
  GatewayProgram gateway(serve_command(2, {"--quiet", "--model", models.string()}));
  ASSERT_TRUE(gateway.is_ready());
  std::this_thread::sleep_for(3s);  // longer than the interval at which the gateway looks at the job's files
  const std::vector<fs::path> files = files_of_job(gateway);
  ASSERT_GE(files.size(), 2U) << "a segment and a session";
  // Killed processes leave their files behind.
  const pid_t mpirun = gateway.mpirun();
  for (const pid_t process : {mpirun, gateway.process().rank(0), gateway.process().rank(1)})
    send_signal(process, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return gateway.metric("restarts_total") == 1.0; }));
  EXPECT_TRUE(gateway.is_ready());
  for (const fs::path& file : files) EXPECT_FALSE(fs::exists(file)) << file;
  gateway.end();
  EXPECT_TRUE(fs::exists(other));
  fs::remove(other);
  EXPECT_TRUE(fs::exists(models / "model.safetensors"));
  fs::remove_all(models);
}

}  // namespace
}  // namespace tp::test
