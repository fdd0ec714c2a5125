#include "launch/ranks/uncaught_errors.h"

#include "launch/common/message.h"
#include "launch/common/option_names.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/machine/error_text.h"
#include "parallel/machine/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

// Made in advance, because the handler may have to do without memory.
struct FailureReport {
  std::string before;         // "tp-infer: [rank 1/2 on node7] "
  std::string out_of_memory;  // the whole line
  bool has_other_ranks = false;
  MemoryReserve reserve;
};

// Never destroyed, because a thread may fail while the program ends.
FailureReport& failure_report() {
  static auto* const report = new FailureReport;
  return *report;
}

std::string beginning_for(std::size_t rank, std::size_t size) {
  if (size == 1) return "tp-infer: ";
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("tp-infer: [rank {}/{} on {}] ", rank, size, host);
}

std::terminate_handler usual_handler = nullptr;

void report_failure(const std::exception& error) {
  FailureReport& report = failure_report();
  if (is_out_of_memory(error)) return print_note(report.out_of_memory);
  try {
    print_message(report.before + with_flags(error_text(error)));
  } catch (const std::exception&) {  // no memory for the text
    print_note(report.out_of_memory);
  }
}

// The terminate handler. A server's clients only see that their connections end, because telling them the
// reason takes memory.
void end_after_failure() {
  // Seconds after which a second failing thread ends the program; MpiSession::abort() takes less.
  constexpr unsigned kPatience = 5;
  static std::atomic_flag has_begun = ATOMIC_FLAG_INIT;
  if (has_begun.test_and_set()) {
    ::sleep(kPatience);
    std::_Exit(1);
  }
  const std::exception_ptr thrown = std::current_exception();
  // Without an exception, the program has a mistake. The usual handler leaves a core file.
  if (!thrown) usual_handler();
  FailureReport& report = failure_report();
  report.reserve.release();
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    report_failure(error);
  } catch (...) {
    usual_handler();
  }
  // The main thread may be inside MPI. This usually works, and abort() waits only for seconds if it doesn't.
  if (report.has_other_ranks) MpiSession::abort(1);
  std::_Exit(1);
}

}  // namespace

void report_uncaught_errors(std::size_t rank, std::size_t size, std::string_view out_of_memory) {
  FailureReport& report = failure_report();
  report.before = beginning_for(rank, size);
  report.out_of_memory = fmt::format("{}{}\n", report.before, out_of_memory);
  report.has_other_ranks = size > 1;
  if (usual_handler == nullptr) usual_handler = std::set_terminate(end_after_failure);
}

}  // namespace tp
