// Functions compiled for wider vectors besides, among which the loader chooses.
#pragma once

// The loader chooses before a sanitizer is ready to be called; clang has no macro that says so.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(TP_SANITIZE_THREADS) && \
    !defined(__SANITIZE_ADDRESS__)
#define TP_FOR_WIDE_VECTORS __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define TP_FOR_WIDE_VECTORS
#endif
