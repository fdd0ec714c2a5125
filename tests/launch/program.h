// Runs tp-infer like a user.
#pragma once

#include "tests/launch/process.h"

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

using Arguments = std::vector<std::string>;

// Rank counts of test runs. 0 means without mpirun.
constexpr std::size_t kNoMpirun = 0;

// The reason why tests that limit the address space are skipped if TP_SANITIZED.
constexpr const char* kNoAddressLimits = "sanitizers reserve terabytes of address space";

// Returns the command line of tp-infer on this many ranks. If `wrapper` is given, it is started instead with
// the command line as arguments.
std::vector<std::string> command_line(std::size_t ranks, const Arguments& arguments,
                                      const std::string& wrapper = {});

// Runs the program to its end.
Finished run(std::size_t ranks, const Arguments& arguments, const StartOptions& options = {});

// Runs the program with several rank counts at the same time, because mpirun takes a second to end a job that
// fails. Calls check(finished) for each.
void run_at_once(const std::vector<std::size_t>& rank_counts, const Arguments& arguments,
                 const std::function<void(const Finished&)>& check);

// Returns stderr without the lines that Open MPI adds to every exit status except 0.
std::string without_mpi_noise(const std::string& err);

// Expects this exit status, an empty stdout, and one line on stderr that begins with "tp-infer" and contains
// `message`.
void expect_one_line(const Finished& finished, int status, const std::string& message);
// Expects an error that all ranks know: they end by themselves, without MPI_Abort, with one line like
// expect_one_line's.
void expect_one_error(const Finished& finished, int status, const std::string& message);
// Expects exit status 0 and an empty stderr.
void expect_success(const Finished& finished);

// The output of `tp-infer COMMAND --help-all`, or of `tp-infer --help-all` without a command. A test program
// starts each of them once.
const std::string& help_text(const std::string& command = {});

// Returns how often a part occurs in a text.
std::size_t count_of(const std::string& text, const std::string& part);
// Returns the lines of a text, without their newlines.
std::vector<std::string> lines_of(const std::string& text);
// Parses each line of a text as JSON.
std::vector<nlohmann::json> json_lines(const std::string& text);

}  // namespace tp::test
