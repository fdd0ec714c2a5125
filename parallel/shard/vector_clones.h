// Compiles a function for several vector widths. The dynamic loader picks the best version for the processor.
#pragma once

// Sanitizers need a single version, because the loader would pick a version before they are ready. The build
// defines TP_SANITIZE_THREADS, because clang has no macro for the thread sanitizer.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(TP_SANITIZE_THREADS) && \
    !defined(__SANITIZE_ADDRESS__)
#define TP_FOR_WIDE_VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define TP_FOR_WIDE_VECTORS
#endif
