// Loads OpenBLAS only if it is used. Otherwise it would map 128 MiB for each thread before main, and retry
// for ever if a limit of the address space forbids that.
#pragma once

namespace tp::kernels {

// Declared with the names of <cblas.h>, so that a build needs no header of OpenBLAS. Its C interface has been
// stable since 1999; the library's integers have 32 bits, unlike libopenblas64's.
using blasint = int;
enum CblasOrder : int { CblasRowMajor = 101 };
enum CblasTranspose : int { CblasNoTrans = 111, CblasTrans = 112 };
using Sgemm = void (*)(CblasOrder order, CblasTranspose transpose_a, CblasTranspose transpose_b, blasint m,
                       blasint n, blasint k, float alpha, const float* a, blasint stride_a, const float* b,
                       blasint stride_b, float beta, float* c, blasint stride_c);

// cblas_sgemm. The first call loads the library, for OpenMP's current number of calling threads. Throws
// ConfigError if the library is missing or the address space has no room for its buffers.
Sgemm openblas_sgemm();

}  // namespace tp::kernels
