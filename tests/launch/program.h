// tp-infer, as a user runs it.
#pragma once

#include "tests/launch/process.h"

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

using Arguments = std::vector<std::string>;

// The rank counts at which it is run; 0 is without mpirun.
constexpr std::size_t kNoMpirun = 0;

// Why tests that limit the address space skip where TP_SANITIZED.
constexpr const char* kNoAddressLimits = "sanitizers reserve terabytes of address space";

// The command line of tp-infer over that many ranks; `wrapper` is started in its place with it as arguments.
std::vector<std::string> command_line(std::size_t ranks, const Arguments& arguments,
                                      const std::string& wrapper = {});

// Runs it to the end.
Finished run(std::size_t ranks, const Arguments& arguments, const StartOptions& options = {});

// The same over several rank counts, all at a time: mpirun takes a second to end a job that fails. Calls
// check(finished) for each.
void run_at_once(const std::vector<std::size_t>& rank_counts, const Arguments& arguments,
                 const std::function<void(const Finished&)>& check);

// stderr without what Open MPI adds to every exit status that is not 0.
std::string without_mpi_noise(const std::string& err);

// That it ended with this status, printed nothing on stdout, and one line on stderr that begins with
// "tp-infer" and contains `message`.
void expect_one_line(const Finished& finished, int status, const std::string& message);
// The same of an error that all ranks know of: they end by themselves, without MPI_Abort.
void expect_one_error(const Finished& finished, int status, const std::string& message);
// That it ended well and printed nothing on stderr.
void expect_success(const Finished& finished);

// The output of `tp-infer COMMAND --help-all`, or of `tp-infer --help-all` without a command. A test program
// starts each of them once.
const std::string& help_text(const std::string& command = {});

// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);
// The same, each of which must be JSON.
std::vector<nlohmann::json> json_lines(const std::string& text);

}  // namespace tp::test
