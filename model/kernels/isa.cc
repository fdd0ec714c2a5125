#include "model/kernels/isa.h"

#include "tp/error.h"

#include <cstdlib>

namespace tp::kernels {
namespace {

Isa choose_isa() {
  const char* wanted = std::getenv("TP_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_isa();
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (name_of(isa) == wanted && isa <= best_isa()) return isa;
  }
  throw_error<ConfigError>(
      "TP_ISA must be portable, avx2 or avx512, and no more than this machine's {}; found \"{}\"",
      name_of(best_isa()), wanted);
}

}  // namespace

std::string_view name_of(Isa isa) {
  return isa == Isa::portable ? "portable" : isa == Isa::avx2 ? "avx2" : "avx512";
}

Isa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::portable;
}

Isa active_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

}  // namespace tp::kernels
