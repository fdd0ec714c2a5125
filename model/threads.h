// Work shared among the OpenMP threads of a rank.
#pragma once

#include <cstddef>
#include <exception>

#include <omp.h>

namespace tp {

// Calls body(begin, end) on every thread with its contiguous part of [0, count). An exception that a part
// throws is rethrown to the caller (the first of several).
template <class Body>
void for_thread_parts(std::size_t count, const Body& body) {
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
