// Keys with names at a server, and what SIGHUP to rank 0 changes.
#include "tests/serve/served_program.h"
#include "tests/temporary_directory.h"

#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

int status(const ServedProgram& server, const std::string& key) {
  return server
      .post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 2}}, {{"Authorization", "Bearer " + key}})
      .status;
}

TEST(ServeKeys, CountAfterAHangupOfRank0) {
  const TemporaryDirectory folder;
  const std::string keys = folder.write("keys", "anna:anna-key\n").string();
  const std::string pid_file = (folder.path() / "pid").string();
  ServedProgram server(2,
                       {"--api-key-file", keys, "--pid-file", pid_file, "--trusted-proxies", "127.0.0.0/8"});
  pid_t rank_0 = 0;
  std::ifstream(pid_file) >> rank_0;
  ASSERT_GT(rank_0, 1);
  EXPECT_EQ(status(server, "anna-key"), 200);
  EXPECT_EQ(status(server, "ben-key"), 401);
  HttpClient running(server.port());
  running.send(request_text(
      "POST", "/v1/completions",
      json{{"prompt", "Once"}, {"max_tokens", 300}, {"ignore_eos", true}, {"stream", true}}.dump(),
      {{"x-api-key", "anna-key"}, {"X-Forwarded-For", "192.0.2.7"}}));
  ASSERT_NE(running.read_until("data: "), "");
  const auto reload = [&](const std::string& text, const std::string& message) {
    std::ofstream(keys) << text;
    ::kill(rank_0, SIGHUP);
    return server.process().wait_for_message(message);
  };
  EXPECT_TRUE(reload("ben:ben-key\n-\n", "2 API keys are valid now"));
  EXPECT_EQ(status(server, "ben-key"), 200);
  EXPECT_EQ(status(server, "-"), 200) << "a key without a name";
  EXPECT_EQ(status(server, "anna-key"), 401);
  EXPECT_EQ(running.read().chunks().size(), 301U) << "a request that has begun goes on";
  EXPECT_TRUE(reload("ben:\n", "keeps its API keys"));
  EXPECT_EQ(status(server, "ben-key"), 200);
  EXPECT_TRUE(server.process().wait_for_message("192.0.2.7 POST /v1/completions 200 user=anna"));
  EXPECT_TRUE(server.process().wait_for_message("127.0.0.1 POST /v1/completions 200 user=ben"));
  ::kill(rank_0, SIGTERM);
  EXPECT_EQ(server.process().finish().status, 0);
}

}  // namespace
}  // namespace tp::test
