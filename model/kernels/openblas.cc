#include "model/kernels/openblas.h"

#include "tp/internal/require.h"

#include <array>
#include <cstddef>
#include <vector>

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <sys/mman.h>

namespace tp::kernels {
namespace {

// Fedora and its relatives give the build for OpenMP the first name, and the serial build the second. Debian,
// Ubuntu and conda have only the second.
constexpr std::array kLibraries = {"libopenblaso.so.0", "libopenblas.so.0"};
constexpr const char* kPurpose = "multiplies many tokens where there are only portable kernels";

// Buffers for calls, in addition to those of the library's constructor (one per processor). A call from
// outside a parallel region needs one per thread; calls from inside need one each.
std::size_t buffers_of_calls() { return 2 * static_cast<std::size_t>(omp_get_max_threads()); }

std::size_t needed_mib() {
  constexpr std::size_t kCode = 64;  // including the libraries on which it depends
  constexpr std::size_t kBuffer = 128;
  return kCode + (static_cast<std::size_t>(omp_get_num_procs()) + buffers_of_calls()) * kBuffer;
}

bool has_room(std::size_t mib) {
  void* room = ::mmap(nullptr, mib << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return room != MAP_FAILED && ::munmap(room, mib << 20) == 0;
}

// Makes OpenBLAS map all buffers while there is room. Released buffers stay mapped for later calls.
void take_buffers(void* library) {
  const auto take = reinterpret_cast<void* (*)(int)>(::dlsym(library, "blas_memory_alloc"));
  const auto give_back = reinterpret_cast<void (*)(void*)>(::dlsym(library, "blas_memory_free"));
  if (take == nullptr || give_back == nullptr) return;
  std::vector<void*> buffers(buffers_of_calls());
  for (void*& buffer : buffers) buffer = take(0);
  for (void* buffer : buffers) give_back(buffer);
}

Sgemm load() {
  require<ConfigError>(
      has_room(needed_mib()),
      "cannot load OpenBLAS, which {}: expected {} MiB of address space for its buffers, found "
      "a limit that leaves less; raise the limit (ulimit -v) or start fewer threads (`threads`)",
      kPurpose, needed_mib());
  void* library = nullptr;
  for (const char* name : kLibraries)
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void* sgemm = library != nullptr ? ::dlsym(library, "cblas_sgemm") : nullptr;
  if (sgemm == nullptr) {
    throw_error<ConfigError>(
        "cannot load OpenBLAS, which {}: expected cblas_sgemm in {}, found: {}; install libopenblas0-openmp, "
        "name the library's folder in LD_LIBRARY_PATH, or use --same-bits, which needs no OpenBLAS",
        kPurpose, fmt::join(kLibraries, " or "), ::dlerror());
  }
  take_buffers(library);
  return reinterpret_cast<Sgemm>(sgemm);
}

}  // namespace

Sgemm openblas_sgemm() {
  static const Sgemm sgemm = load();
  return sgemm;
}

}  // namespace tp::kernels
