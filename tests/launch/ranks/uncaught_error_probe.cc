// A rank whose exception leaves a function that must not throw, for uncaught_errors_test.cc.
//
// `uncaught_error_probe NAME PLACE`: the last rank throws at this place, and the others wait for it.
#include "launch/ranks/uncaught_errors.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/mpi_session.h"
#include "tp/communicator.h"
#include "tp/error.h"

#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace tp {
namespace {

void in_thread(const std::function<void()>& work) { std::thread(work).join(); }

[[noreturn]] void run_out_of_memory() { throw std::bad_alloc(); }

// Takes all memory, down to the smallest block.
void exhaust_memory() {
  static void* volatile block = nullptr;  // keeps the compiler from removing the allocations
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = 0;
  ::setrlimit(RLIMIT_AS, &limit);
  for (std::size_t size = std::size_t{1} << 24; size >= 16; size /= 2) {
    do {
      block = ::operator new(size, std::nothrow);
    } while (block != nullptr);
  }
  while (true) block = ::operator new(16);
}

struct Destructor {
  ~Destructor() { run_out_of_memory(); }
};

void throw_in_team() {
#pragma omp parallel num_threads(2)
  run_out_of_memory();
}

// Both threads fail at about the same time.
void throw_twice() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(run_out_of_memory);
  for (std::thread& thread : threads) thread.join();
}

const std::map<std::string, std::function<void()>> kPlaces = {
    {"thread", [] { in_thread(run_out_of_memory); }},
    {"exhausted", [] { in_thread(exhaust_memory); }},
    {"destructor", [] { const Destructor fails{}; }},
    {"noexcept", [] { []() noexcept { run_out_of_memory(); }(); }},
    {"team", throw_in_team},
    {"two threads", throw_twice},
    {"error", [] { in_thread([] { throw Error("the file is damaged; download it again"); }); }},
    {"number", [] { in_thread([] { throw 7; }); }},
};

int run(int count, char** words) {
  const auto place = kPlaces.find(count > 2 ? words[2] : "");
  if (place == kPlaces.end()) {
    std::fprintf(stderr, "usage: uncaught_error_probe NAME PLACE\n");
    return 2;
  }
  const MpiSession session;
  report_uncaught_errors(session.rank(), session.size(), "out of memory; free some");
  Communicator comm = session.all_ranks({});
  barrier(comm);
  if (session.rank() + 1 == session.size()) place->second();
  barrier(comm);
  return 0;
}

}  // namespace
}  // namespace tp

int main(int count, char** words) { return tp::run(count, words); }
