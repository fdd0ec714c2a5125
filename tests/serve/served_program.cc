#include "tests/serve/served_program.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

Arguments with_defaults(Arguments arguments) {
  arguments.insert(arguments.begin(), {"serve", "--port", "0"});
  return arguments;
}

std::uint16_t port_in(const std::string& text) {
  constexpr std::string_view kBefore = "API   http://127.0.0.1:";
  const std::size_t at = text.find(kBefore);
  return at == std::string::npos ? 0
                                 : static_cast<std::uint16_t>(std::atoi(text.c_str() + at + kBefore.size()));
}

}  // namespace

ServedProgram::ServedProgram(std::size_t ranks, Arguments arguments, const StartOptions& options)
    : process_(command_line(ranks, with_defaults(std::move(arguments))), options) {
  std::string seen;
  const bool has_begun = process_.wait_for_error(
      [&](const std::string& err) {
        seen = err;
        return port_in(err) != 0 && err.find("/v1\n") != std::string::npos;
      },
      60);
  if (!has_begun) throw std::runtime_error("tp-infer serve did not begin: " + seen);
  port_ = port_in(seen);
}

bool ServedProgram::is_idle(double seconds) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    const nlohmann::json now = status();
    if (now["requests"]["running"] == 0 && now["requests"]["waiting"] == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

double ServedProgram::metric(const std::string& name) const {
  std::istringstream lines(get("/metrics").body);
  double sum = 0.0;
  for (std::string line; std::getline(lines, line);) {
    const std::string wanted = "tpinfer:" + name;
    if (!line.starts_with(wanted) || (line[wanted.size()] != '{' && line[wanted.size()] != ' ')) continue;
    sum += std::atof(line.substr(line.rfind(' ')).c_str());
  }
  return sum;
}

void ServedProgram::end() {
  // mpirun forwards the signal. Without mpirun, the process is the server itself.
  ::kill(process_.pid(), SIGUSR1);
  EXPECT_EQ(process_.finish().status, 0);
}

}  // namespace tp::test
