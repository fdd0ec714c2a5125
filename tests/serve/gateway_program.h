// tp-infer gateway, run like a user runs it.
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

// Returns the number in an environment variable, or `otherwise`.
std::size_t number_in(const char* variable, std::size_t otherwise);

// Returns the command of a job that runs tp-infer serve.
std::vector<std::string> serve_command(std::size_t ranks, const Arguments& arguments = {});
// Returns the command of a job that runs fake_job.cc.
std::vector<std::string> fake_command();

// Returns the command of a fake job with this name. `group`: file that only one job at a time may lock;
// empty: none. `script`: shell commands before the job.
std::vector<std::string> fake_command_of(const std::string& name, const std::string& group = "",
                                         const std::string& script = "");

// Returns a configuration with these commands.
std::string config_text(const std::vector<std::vector<std::string>>& commands);

// Sends a signal to one process. Throws unless the id is greater than 1, because -1 would mean all processes
// of this machine.
void send_signal(pid_t process, int number);

// Returns the resident memory of a process.
double resident_megabytes(pid_t process);

// Waits until the condition holds, and returns whether it does.
bool comes_true(const std::function<bool()>& condition, double seconds = 60);

class GatewayProgram {
 public:
  // Starts the gateway on a free port. `options`: the gateway's options, before the command.
  explicit GatewayProgram(const std::vector<std::string>& command, const Arguments& options = {},
                          const StartOptions& start = {});

  std::uint16_t port() const { return port_; }
  Process& process() { return process_; }
  HttpReply get(const std::string& target) const { return test::get(port_, target); }
  HttpReply post(const std::string& target, const nlohmann::json& body) const {
    return test::post(port_, target, body);
  }
  // Waits until a job is ready, and returns whether one is.
  bool is_ready(double seconds = 60) const;
  // Returns the process id of the job's member with this program name, or -1.
  pid_t member(std::string_view name) const;
  // Returns the process id of the fake job with this name, or -1.
  pid_t fake_job(std::string_view name) const;
  // Returns the state of a model in /v1/models, or an empty text if the model is not listed.
  std::string state_of(const std::string& model) const;
  bool comes_to(const std::string& model, const std::string& state, double seconds = 30) const;
  // Returns the process id of its mpirun, or -1.
  pid_t mpirun() const;
  double metric(const std::string& name) const;

  // Ends the gateway like a user does, and expects that no processes are left. Returns its messages.
  std::string end();

 private:
  Process process_;
  std::uint16_t port_ = 0;
};

}  // namespace tp::test
