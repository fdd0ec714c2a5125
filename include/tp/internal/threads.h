// Work shared among the OpenMP threads of a rank.
#pragma once

#include <cstddef>
#include <exception>

#include <omp.h>

namespace tp {

// Minimum amount of work to divide among threads, in multiplications or operations of similar cost. With less
// work, waking the threads (about two barriers) costs more than it saves. Small models therefore run on one
// thread per rank, and don't stall on busy machines.
#ifdef TP_SANITIZE_THREADS
inline constexpr std::size_t kMinParallelWork = 1;  // lets small tests find races
#else
inline constexpr std::size_t kMinParallelWork = 1 << 17;
#endif

// Calls body(begin, end) on every thread, each with a contiguous part of [0, count). If `work` is less than
// kMinParallelWork, makes only one call, with the whole range. Rethrows the first exception from any part.
template <class Body>
void for_thread_parts(std::size_t count, std::size_t work, const Body& body) {
  if (work < kMinParallelWork) {
    if (count > 0) body(std::size_t{0}, count);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel
  {
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = count * thread / threads;
    const std::size_t end = count * (thread + 1) / threads;
    try {
      if (begin < end) body(begin, end);
    } catch (...) {
#pragma omp critical(tp_thread_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tp
