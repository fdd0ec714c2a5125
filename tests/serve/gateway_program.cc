#include "tests/serve/gateway_program.h"

#include "parallel/machine/file_text.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

Arguments arguments_of(const std::vector<std::string>& command, const Arguments& options) {
  Arguments arguments = {"gateway", "--port", "0"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  if (command.empty()) return arguments;
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), command.begin(), command.end());
  return arguments;
}

std::uint16_t port_in(const std::string& text) {
  constexpr std::string_view kBefore = "listening at http://127.0.0.1:";
  const std::size_t at = text.find(kBefore);
  return at == std::string::npos ? 0
                                 : static_cast<std::uint16_t>(std::atoi(text.c_str() + at + kBefore.size()));
}

std::string name_of_process(pid_t process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/comm");
  std::string name;
  std::getline(stream, name);
  return name;
}

}  // namespace

std::size_t number_in(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<std::string> serve_command(std::size_t ranks, const Arguments& arguments) {
  Arguments all = {"serve"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return command_line(ranks, all);
}

std::vector<std::string> fake_command() { return {TP_FAKE_JOB}; }

std::vector<std::string> fake_command_of(const std::string& name, const std::string& group,
                                         const std::string& script) {
  std::vector<std::string> command = {"env", "FAKE_NAME=" + name};
  if (!group.empty()) command.push_back("FAKE_GROUP=" + group);
  command.insert(command.end(), {"sh", "-c", script + (script.empty() ? "" : "; ") + "exec " TP_FAKE_JOB});
  return command;
}

std::string config_text(const std::vector<std::vector<std::string>>& commands) {
  return nlohmann::json{{"commands", commands}}.dump();
}

void send_signal(pid_t process, int number) {
  if (process <= 1) throw std::runtime_error("there is no such process to send a signal to");
  ::kill(process, number);
}

double resident_megabytes(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  double size = 0.0;
  double resident = 0.0;
  file >> size >> resident;
  return resident * 4096.0 / 1e6;
}

bool comes_true(const std::function<bool()>& condition, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

GatewayProgram::GatewayProgram(const std::vector<std::string>& command, const Arguments& options,
                               const StartOptions& start)
    : process_(command_line(kNoMpirun, arguments_of(command, options)), start) {
  std::string seen;
  const auto has_port = [&](const std::string& err) {
    seen = err;
    return port_in(err) != 0 && err.find("/\n") != std::string::npos;
  };
  if (!process_.wait_for_error(has_port, 60))
    throw std::runtime_error("tp-infer gateway did not begin: " + seen);
  port_ = port_in(seen);
}

bool GatewayProgram::is_ready(double seconds) const {
  return comes_true([&] { return get("/health").status == 200; }, seconds);
}

pid_t GatewayProgram::member(std::string_view name) const {
  for (const pid_t process : process_.members()) {
    if (process != process_.pid() && name_of_process(process) == name) return process;
  }
  return -1;
}

pid_t GatewayProgram::fake_job(std::string_view name) const {
  const std::string wanted = "FAKE_NAME=" + std::string(name) + '\0';
  for (const pid_t process : process_.members()) {
    const std::string variables = file_text("/proc/" + std::to_string(process) + "/environ");
    if (name_of_process(process) == "fake_job" && variables.find(wanted) != std::string::npos) return process;
  }
  return -1;
}

std::string GatewayProgram::state_of(const std::string& model) const {
  const HttpReply reply = get("/v1/models/" + model);
  return reply.status == 200 ? reply.json().value("state", "") : "";
}

bool GatewayProgram::comes_to(const std::string& model, const std::string& state, double seconds) const {
  return comes_true([&] { return state_of(model) == state; }, seconds);
}

pid_t GatewayProgram::mpirun() const {
  const pid_t found = member(std::filesystem::path(TP_MPIRUN_PROGRAM).filename().string());
  return found >= 0 ? found : member("prterun");  // the launcher of Open MPI 5
}

double GatewayProgram::metric(const std::string& name) const {
  std::istringstream lines(get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("tpinfer:gateway_" + name + " "))
      return std::atof(line.substr(line.rfind(' ')).c_str());
  }
  return -1.0;
}

std::string GatewayProgram::end() {
  send_signal(process_.pid(), SIGTERM);
  const Finished finished = process_.finish(60);
  EXPECT_EQ(finished.status, 0) << finished.err;
  return finished.err;
}

}  // namespace tp::test
