// OpenBLAS, loaded where it multiplies and nowhere else: it maps 128 MiB for every thread before main, and
// where a limit of the address space forbids that it tries again for ever.
#pragma once

#include <cblas.h>

namespace tp::kernels {

using Sgemm = decltype(&cblas_sgemm);

// cblas_sgemm. The first call loads the library, for as many calling threads as OpenMP has then; throws
// ConfigError where it is missing, or where the address space has no room for its buffers.
Sgemm openblas_sgemm();

}  // namespace tp::kernels
