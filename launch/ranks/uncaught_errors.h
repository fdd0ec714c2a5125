#pragma once

#include <cstddef>
#include <string_view>

namespace tp {

// From now on, an exception that leaves a thread, a parallel region, a destructor or a function declared
// noexcept ends the program like an error of the main thread: with one message and exit status 1. With
// several ranks, it ends the job. The usual message of std::terminate names neither the rank nor what to do.
//
// `out_of_memory` is the message if memory has run out, which needs no more memory then. A later call
// replaces all arguments.
void report_uncaught_errors(std::size_t rank, std::size_t size, std::string_view out_of_memory);

}  // namespace tp
