#include "tests/launch/program.h"

#include "tests/expect_contains.h"

#include <algorithm>
#include <map>
#include <memory>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

bool is_rule(const std::string& line) {
  return line.size() > 60 && line.find_first_not_of('-') == std::string::npos;
}

// Whether the command has an engine in this process. It then uses one thread per rank, because the tests run
// many ranks on few cores.
bool has_engine(const Arguments& arguments) {
  static const std::vector<std::string> commands = {"generate", "chat",       "serve",     "embed",
                                                    "rank",     "classify",   "fill-mask", "logits",
                                                    "hidden",   "perplexity", "bench"};
  return !arguments.empty() &&
         std::find(commands.begin(), commands.end(), arguments.front()) != commands.end() &&
         std::find(arguments.begin(), arguments.end(), "--server") == arguments.end();
}

}  // namespace

std::vector<std::string> command_line(std::size_t ranks, const Arguments& arguments,
                                      const std::string& wrapper) {
  std::vector<std::string> command;
  if (ranks != kNoMpirun) {
    command = {TP_MPIRUN_PROGRAM,
               "--oversubscribe",
               "--bind-to",
               "none",
               "--mca",
               "mpi_yield_when_idle",
               "1",
               "-np",
               std::to_string(ranks)};
  }
  if (!wrapper.empty()) command.push_back(wrapper);
  command.push_back(TP_INFER_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (has_engine(arguments)) command.insert(command.end(), {"--threads", "1"});
  return command;
}

Finished run(std::size_t ranks, const Arguments& arguments, const StartOptions& options) {
  return Process(command_line(ranks, arguments), options).finish();
}

void run_at_once(const std::vector<std::size_t>& rank_counts, const Arguments& arguments,
                 const std::function<void(const Finished&)>& check) {
  std::vector<std::unique_ptr<Process>> processes;
  for (const std::size_t ranks : rank_counts)
    processes.push_back(std::make_unique<Process>(command_line(ranks, arguments)));
  for (std::size_t i = 0; i < processes.size(); ++i) {
    SCOPED_TRACE(std::to_string(rank_counts[i]) + " ranks");
    check(processes[i]->finish());
  }
}

// Open MPI writes blocks between rules, and lines that begin with "[host:process]" or "[warn]".
std::string without_mpi_noise(const std::string& err) {
  std::istringstream lines(err);
  std::string ours;
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    std::erase(line, '\0');  // Open MPI 5 ends a block with it
    if (is_rule(line)) {
      in_block = !in_block;
    } else if (!in_block && !line.empty() && !line.starts_with('[')) {
      ours += line + "\n";
    }
  }
  return ours;
}

void expect_one_error(const Finished& finished, int status, const std::string& message) {
  expect_one_line(finished, status, message);
  EXPECT_EQ(finished.err.find("MPI_ABORT"), std::string::npos) << finished.err;
}

void expect_one_line(const Finished& finished, int status, const std::string& message) {
  EXPECT_EQ(finished.status, status);
  EXPECT_EQ(finished.out, "");
  const std::string ours = without_mpi_noise(finished.err);
  EXPECT_EQ(std::count(ours.begin(), ours.end(), '\n'), 1) << finished.err;
  EXPECT_TRUE(ours.starts_with("tp-infer")) << finished.err;
  EXPECT_CONTAINS(ours, message);
}

void expect_success(const Finished& finished) {
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.err, "");
}

const std::string& help_text(const std::string& command) {
  static std::map<std::string, std::string> texts;
  const auto [text, is_new] = texts.try_emplace(command);
  if (!is_new) return text->second;
  const Arguments arguments = command.empty() ? Arguments{"--help-all"} : Arguments{command, "--help-all"};
  const Finished finished = Process(command_line(kNoMpirun, arguments)).finish();
  expect_success(finished);
  // Removes the line breaks of wrapped descriptions.
  return text->second = std::regex_replace(finished.out, std::regex("\n {20,}"), " ");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    values.push_back(nlohmann::json::parse(line, nullptr, false));
    if (values.back().is_discarded()) {
      ADD_FAILURE() << "not JSON: " << line;
      values.back() = nlohmann::json::object();
    }
  }
  return values;
}

}  // namespace tp::test
