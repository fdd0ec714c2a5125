// Loads OpenBLAS only if it is used. Otherwise it would map 128 MiB for each thread before main, and retry
// for ever if a limit of the address space forbids that.
#pragma once

#include <cblas.h>

namespace tp::kernels {

using Sgemm = decltype(&cblas_sgemm);

// cblas_sgemm. The first call loads the library, for OpenMP's current number of calling threads. Throws
// ConfigError if the library is missing or the address space has no room for its buffers.
Sgemm openblas_sgemm();

}  // namespace tp::kernels
