#include "runtime/gateway/supervisor.h"

#include "tests/runtime/gateway/server_of_jobs.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

// Returns how the supervisor of these commands ends: the reason why they can't start a server, "failing: "
// and the last error if it keeps trying, or "ready". `is_ready`: the first job announces itself.
std::string outcome(GatewayCommands commands, bool is_ready = false) {
  HttpServer http(test::server_of_jobs());
  std::promise<std::string> outcome;
  bool is_known = false;
  std::unique_ptr<Supervisor> supervisor;
  const auto tell = [&](const std::string& text) {
    if (!std::exchange(is_known, true)) outcome.set_value(text);
  };
  Supervisor::Events events{.on_ready = [] {},
                            .on_lost = [](bool) {},
                            .on_failing = [&](const std::string& error) { tell("failing: " + error); },
                            .on_hopeless = [&] { tell(supervisor->hopeless()); },
                            .on_stopped = [] {},
                            .on_ended = [] {},
                            .log = [](const std::string&) {}};
  supervisor = std::make_unique<Supervisor>(http, SupervisorOptions{.commands = std::move(commands)}, events);
  http.post([&] {
    supervisor->start();
    if (is_ready) supervisor->announced(supervisor->secret(), {.host = "127.0.0.1", .port = 9}, "127.0.0.1");
  });
  std::future<std::string> result = outcome.get_future();
  if (result.wait_for(60s) != std::future_status::ready) return "nothing";
  std::promise<void> ended;
  http.post([&] {
    supervisor->end();
    supervisor.reset();
    ended.set_value();
  });
  ended.get_future().wait();
  return result.get();
}

std::vector<std::string> script(const std::string& text) { return {"sh", "-c", text}; }

const std::vector<std::string> kUsage =
    script("echo 'tp-infer serve: there is no option --modle' >&2; exit 2");
const std::vector<std::string> kPassing = script("echo 'tp-infer: the network is down' >&2; exit 1");

TEST(Supervisor, GivesUpIfNoCommandCanStartAServer) {
  EXPECT_EQ(outcome({kUsage}), "tp-infer serve: there is no option --modle");
  EXPECT_EQ(outcome({{"/no/such/program", "serve"}}),
            "tp-infer gateway: cannot start /no/such/program: No such file or directory");
  EXPECT_EQ(outcome({{"/", "serve"}}), "tp-infer gateway: cannot start /: Permission denied");
  EXPECT_EQ(outcome({script("exec /no/such/program 2> /dev/null")}), "exit status 127");
  EXPECT_EQ(outcome({script("echo 'mpirun was unable to find the file' >&2; echo 'Executable: tp-infre' >&2; "
                            "echo '-----' >&2; exit 134")}),
            "mpirun found no program tp-infre");
  EXPECT_EQ(outcome({kUsage, {"/no/such/program"}, kUsage}), "tp-infer serve: there is no option --modle");
}

// tp-infer generate prints a model's text.
TEST(Supervisor, NeverQuotesAModelsText) {
  const std::string text = "echo 'tp-infer: rank 1 says that process rank 0 is lost: buy now'; ";
  EXPECT_EQ(outcome({script(text)}),
            "expected a command that runs tp-infer serve, found one that ends without an error");
  EXPECT_EQ(outcome({script(text + "exit 2")}), "exit status 2");
}

TEST(Supervisor, GoesOnTryingIfACommandMayStartLater) {
  EXPECT_EQ(outcome({kPassing}), "failing: tp-infer: the network is down");
  EXPECT_EQ(outcome({kUsage, kPassing}), "failing: tp-infer: the network is down");
  EXPECT_EQ(outcome({kPassing, kUsage}), "failing: tp-infer serve: there is no option --modle");
  EXPECT_EQ(outcome({script("kill -9 $$")}), "failing: signal 9 (Killed)");
}

TEST(Supervisor, NeverGivesUpAfterAJobWasReady) {
  EXPECT_EQ(outcome({kUsage}, true), "failing: tp-infer serve: there is no option --modle");
}

TEST(Supervisor, GivesServersItsOwnTimeToDrain) {
  const auto found = [](std::vector<std::string> options) {
    std::vector<std::string> command = script("echo \"tp-infer: found $*\" >&2; exit 1");
    command.insert(command.end(), {"sh", "serve"});
    command.insert(command.end(), options.begin(), options.end());
    return outcome({command});
  };
  EXPECT_EQ(found({}), "failing: tp-infer: found serve --same-bits --drain-seconds 60");
  EXPECT_EQ(found({"--drain-seconds", "5"}), "failing: tp-infer: found serve --drain-seconds 5 --same-bits");
  EXPECT_EQ(found({"--drain-seconds=5"}), "failing: tp-infer: found serve --drain-seconds=5 --same-bits");
}

}  // namespace
}  // namespace tp
