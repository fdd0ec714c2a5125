// How a server ends: after its answers, immediately, or when it loses a rank.

#include "tests/serve/served_program.h"
#include "tests/temporary_directory.h"

#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

json long_request(int tokens) {
  return {
      {"prompt", "Once"}, {"max_tokens", tokens}, {"ignore_eos", true}, {"stream", true}, {"temperature", 0}};
}

// Begins a stream and waits for its first token.
std::unique_ptr<HttpClient> begin_stream(const ServedProgram& server, int tokens) {
  auto client = std::make_unique<HttpClient>(server.port());
  client->send(request_text("POST", "/v1/completions", long_request(tokens).dump()));
  client->read_until("data: ");
  return client;
}

struct Ending {
  const char* name;
  std::size_t ranks;
  int signal;
  bool to_rank_0;  // if false, the signal goes to the started process: mpirun, or the server without mpirun
};

class ServeEnding : public testing::TestWithParam<Ending> {};

INSTANTIATE_TEST_SUITE_P(, ServeEnding,
                         testing::Values(Ending{"InterruptWithoutMpirun", kNoMpirun, SIGINT, false},
                                         Ending{"TermWithoutMpirun", kNoMpirun, SIGTERM, false},
                                         Ending{"Usr1ToMpirun", 2, SIGUSR1, false},
                                         Ending{"TermToRank0", 2, SIGTERM, true}),
                         [](const auto& ending) { return ending.param.name; });

TEST_P(ServeEnding, FinishesStartedRequests) {
  TemporaryDirectory folder;
  const std::string pid_file = (folder.path() / "pid").string();
  ServedProgram server(GetParam().ranks, {"--pid-file", pid_file, "--quiet"});
  const auto client = begin_stream(server, 400);
  pid_t receiver = server.process().pid();
  if (GetParam().to_rank_0) std::ifstream(pid_file) >> receiver;
  ::kill(receiver, GetParam().signal);
  EXPECT_TRUE(server.process().wait_for_message("the server ends when its requests are done"));
  const HttpReply health = server.get("/health");
  EXPECT_TRUE(health.status == 503 || health.status == 0) << health.status;
  const HttpReply refused = server.post("/v1/completions", long_request(1));
  EXPECT_TRUE(refused.status == 503 || refused.status == 0) << refused.status;
  const HttpReply reply = client->read();
  EXPECT_EQ(reply.chunks().size(), 401U);
  EXPECT_EQ(reply.events().back(), "[DONE]");
  EXPECT_EQ(server.process().finish().status, 0);
  EXPECT_FALSE(std::filesystem::exists(pid_file));
}

TEST(Serve, ReportsTimeoutsToStreams) {
  ServedProgram server(kNoMpirun, {"--drain-seconds", "0", "--quiet"});
  const auto client = begin_stream(server, 450);
  ::kill(server.process().pid(), SIGTERM);
  const HttpReply reply = client->read();
  EXPECT_TRUE(reply.is_complete);
  EXPECT_TRUE(reply.chunks().back().contains("error")) << reply.body;
  EXPECT_EQ(server.process().finish().status, 0);
}

TEST(Serve, LeavesAtTheSecondSignal) {
  ServedProgram server(kNoMpirun, {"--quiet"});
  const auto client = begin_stream(server, 450);
  ::kill(server.process().pid(), SIGTERM);
  EXPECT_TRUE(server.process().wait_for_message("a second signal"));
  ::kill(server.process().pid(), SIGTERM);
  const HttpReply reply = client->read();
  EXPECT_LT(reply.chunks().size(), 451U);
  EXPECT_EQ(server.process().finish().status, 0);
}

TEST(ServeLoss, ReportsADeadRankToClients) {
  ServedProgram server(3, {"--quiet"});
  const auto client = begin_stream(server, 450);
  ::kill(server.process().rank(2), SIGKILL);
  const HttpReply reply = client->read();
  ASSERT_FALSE(reply.chunks().empty());
  EXPECT_TRUE(reply.chunks().back().contains("error")) << reply.body;
  EXPECT_NE(server.process().finish().status, 0);
}

TEST(ServeLoss, ReportsAStalledRankToClients) {
  ServedProgram server(2, {"--timeout", "1", "--quiet"});
  const auto client = begin_stream(server, 450);
  const pid_t rank = server.process().rank(1);
  ::kill(rank, SIGSTOP);
  const HttpReply reply = client->read();
  ::kill(rank, SIGCONT);
  ASSERT_FALSE(reply.chunks().empty());
  EXPECT_TRUE(reply.chunks().back().contains("error")) << reply.body;
  EXPECT_NE(server.process().finish().status, 0);
}

TEST(Serve, ReportsThatItsPortIsTaken) {
  ServedProgram server(kNoMpirun, {"--quiet"});
  const Finished second = run(kNoMpirun, {"serve", "--port", std::to_string(server.port())});
  expect_one_line(second, 1, "Address already in use");
  server.end();
}

TEST(Serve, SleepsWhenThereIsNothingToDo) {
  ServedProgram server(2, {"--quiet"});
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 2}}).status, 200);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const double before =
      processor_seconds(server.process().rank(0)) + processor_seconds(server.process().rank(1));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  const double used =
      processor_seconds(server.process().rank(0)) + processor_seconds(server.process().rank(1)) - before;
  EXPECT_LT(used, 3 * 2 * 0.05) << "seconds of processor time in three seconds of two ranks";
  server.end();
}

}  // namespace
}  // namespace tp::test
