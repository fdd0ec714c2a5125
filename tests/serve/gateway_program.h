// tp-infer gateway, as a user runs it.
#pragma once

#include "tests/launch/program.h"
#include "tests/serve/http_client.h"

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

constexpr const char* kPath = "/v1/completions";

// The number in an environment variable.
std::size_t number_in(const char* variable, std::size_t otherwise);

// The command of a job of tp-infer serve.
std::vector<std::string> serve_command(std::size_t ranks, const Arguments& arguments = {});
// The command of a job of fake_job.cc.
std::vector<std::string> fake_command();

// A job of fake_job.cc with a name. `group`: the file that only one job at a time may hold; empty: none.
// `script`: what runs before the job.
std::vector<std::string> fake_command_of(const std::string& name, const std::string& group = "",
                                         const std::string& script = "");

// A list of commands as a configuration.
std::string config_text(const std::vector<std::vector<std::string>>& commands);

// Like ::kill, but throws unless the id is that of one process: -1 would be all processes of this machine.
void send_signal(pid_t process, int number);

// Memory of a process.
double resident_megabytes(pid_t process);

// Waits until a condition holds.
bool comes_true(const std::function<bool()>& condition, double seconds = 60);

class GatewayProgram {
 public:
  // Starts it on a free port. `options`: of the gateway, before the command.
  explicit GatewayProgram(const std::vector<std::string>& command, const Arguments& options = {},
                          const StartOptions& start = {});

  std::uint16_t port() const { return port_; }
  Process& process() { return process_; }
  HttpReply get(const std::string& target) const { return test::get(port_, target); }
  HttpReply post(const std::string& target, const nlohmann::json& body) const {
    return test::post(port_, target, body);
  }
  // Waits until a job is ready.
  bool is_ready(double seconds = 60) const;
  // The process id of a member of the job by the name of its program, or -1.
  pid_t member(std::string_view name) const;
  // The process id of the fake job with this name, or -1.
  pid_t fake_job(std::string_view name) const;
  // The state of a model in /v1/models; empty if it is not there.
  std::string state_of(const std::string& model) const;
  bool comes_to(const std::string& model, const std::string& state, double seconds = 30) const;
  // Its mpirun, or -1.
  pid_t mpirun() const;
  double metric(const std::string& name) const;

  // Ends it as a user does, and expects that nothing is left. Returns its messages.
  std::string end();

 private:
  Process process_;
  std::uint16_t port_ = 0;
};

}  // namespace tp::test
