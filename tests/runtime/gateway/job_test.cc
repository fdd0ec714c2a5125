#include "runtime/gateway/job.h"

#include "runtime/gateway/job_files.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/runtime/gateway/server_of_jobs.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

bool ends(Job& job) {
  for (int i = 0; i < 2000; ++i) {
    if (job.has_ended()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

// Returns the best line that arrives. Lines belong to the server's thread.
std::string best_error(HttpServer& http, Job& job) {
  for (int i = 0; i < 1000; ++i) {
    std::promise<std::string> best;
    http.post([&] { best.set_value(job.errors().best()); });
    if (std::string line = best.get_future().get(); !line.empty()) return line;
    std::this_thread::sleep_for(5ms);
  }
  return {};
}

bool has_members(const Job& job, std::size_t count) {
  for (int i = 0; i < 2000; ++i) {
    if (members_of_session(job.process()).size() == count) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(Job, ReportsItsStatusAndItsLastErrorLine) {
  HttpServer http(test::server_of_jobs());
  Job job(http, {"sh", "-c", "echo \"tp-infer: $WORD\" >&2; exit 3"}, {"WORD=no luck"});
  ASSERT_TRUE(ends(job));
  EXPECT_EQ(job.end(), "exit status 3");
  http.flush(100ms);  // the line has been read, too
  EXPECT_EQ(best_error(http, job), "tp-infer: no luck");
}

TEST(Job, ReportsAProgramThatCannotBeStarted) {
  HttpServer http(test::server_of_jobs());
  Job job(http, {"/no/such/program"}, {});
  ASSERT_TRUE(ends(job));
  EXPECT_EQ(job.end(), "exit status 127");
  EXPECT_EQ(best_error(http, job),
            "tp-infer gateway: cannot start /no/such/program: No such file or directory");
}

// A member in its own process group that ignores SIGTERM, like a rank, and a stopped member.
TEST(Job, TakesAllMembersOfItsSessionWithIt) {
  HttpServer http(test::server_of_jobs());
  Job job(http,
          {"bash", "-m", "-c", "(trap '' TERM; sleep 1000) & (kill -STOP $BASHPID; sleep 1000) & sleep 1000"},
          {});
  ASSERT_TRUE(has_members(job, 4)) << "the test proves nothing";
  EXPECT_FALSE(job.has_ended());
  job.signal(SIGKILL);
  EXPECT_TRUE(ends(job));
  EXPECT_EQ(job.end(), "signal 9 (Killed)");
  EXPECT_TRUE(members_of_session(job.process()).empty());
}

TEST(Job, LeavesNoProcessesWhenItEnds) {
  HttpServer http(test::server_of_jobs());
  pid_t process = 0;
  {
    Job job(http, {"bash", "-m", "-c", "sleep 1000 & sleep 1000"}, {});
    ASSERT_TRUE(has_members(job, 3));
    process = job.process();
  }
  EXPECT_TRUE(members_of_session(process).empty());
}

// Session folders with the names of Open MPI 4 and 5, and a file that this process has mapped.
TEST(JobFiles, AreTheSessionFoldersOfTheJobsOwnMpirun) {
  namespace fs = std::filesystem;
  const test::TemporaryDirectory folder;
  const std::string own = std::to_string(::getpid());
  const auto mapped = [&](const std::string& session) {
    fs::create_directories(folder.path() / session / "1");
    const fs::path path = folder.write(session + "/1/memory", "some bytes");
    const int file = ::open(path.c_str(), O_RDONLY);
    void* const address = ::mmap(nullptr, 4, PROT_READ, MAP_SHARED, file, 0);
    EXPECT_NE(address, MAP_FAILED);
    ::close(file);
    return std::pair(folder.path() / session, address);
  };
  const std::pair<fs::path, void*> sessions[] = {
      mapped("ompi.host.0/pid." + own), mapped("prterun.host.cluster." + own + ".0"),
      mapped("ompi.host.0/pid.1"),      mapped("prterun.host." + own + ".17.0"),
      mapped("models/pid." + own),      mapped("prterun.host." + own)};
  JobFiles files;
  files.note(std::vector<pid_t>{::getpid()});
  files.remove();
  for (std::size_t i = 0; i < std::size(sessions); ++i) {
    EXPECT_EQ(fs::exists(sessions[i].first), i >= 2) << sessions[i].first;
    ::munmap(sessions[i].second, 4);
  }
}

}  // namespace
}  // namespace tp
