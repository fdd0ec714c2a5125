#include "model/kernels/simd/isa.h"

#include "model/kernels/simd/amx.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tp::kernels {
namespace {

// In ascending order.
constexpr Isa kSets[] = {Isa::portable,    Isa::avx2, Isa::avx_vnni, Isa::avx512,  Isa::avx512_vnni,
                         Isa::avx512_bf16, Isa::amx,  Isa::neon,     Isa::dotprod, Isa::i8mm};

#if defined(__aarch64__)
constexpr std::string_view kNamesOfSets = "portable, neon, dotprod or i8mm";
#else
constexpr std::string_view kNamesOfSets = "portable, avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16 or amx";
#endif

bool is_of_arm(Isa isa) { return isa >= Isa::neon && isa <= Isa::i8mm; }

// Whether a machine whose best instruction set is `best` has `isa`.
bool has(Isa best, Isa isa) {
  if (isa == Isa::portable) return true;
  if (isa > best || is_of_arm(isa) != is_of_arm(best)) return false;
  return !(isa == Isa::avx_vnni && best == Isa::avx512);
}

// The best instruction set of this build for a machine whose best one is `best`.
Isa best_compiled(Isa best) {
  Isa found = Isa::portable;
  for (const Isa isa : kSets) {
    if (has(best, isa) && is_compiled(isa)) found = isa;
  }
  return found;
}

Isa choose_isa() {
  const char* wanted = std::getenv("TP_ISA");
  if (wanted == nullptr || *wanted == '\0') return best_isa();
  const Isa machine = machine_isa();
  for (const Isa isa : kSets) {
    if (name_of(isa) != wanted || !has(machine, isa)) continue;
    require<ConfigError>(is_compiled(isa),
                         "TP_ISA must be an instruction set that this build has kernels for; found \"{}\"; "
                         "compile all of them with launch/quickstart --all-cpus or cmake -DTP_CPUS=all",
                         wanted);
    return isa;
  }
  if (name_of(Isa::amx_emulated) == wanted) {
    require<ConfigError>(is_compiled(Isa::amx_emulated),
                         "TP_ISA must be an instruction set of this build; found \"{}\", which is for tests: "
                         "configure with cmake -DTP_BUILD_TESTS=ON",
                         wanted);
    return Isa::amx_emulated;
  }
  throw_error<ConfigError>("TP_ISA must be {}, and no more than this machine's {}; found \"{}\"",
                           kNamesOfSets, name_of(machine), wanted);
}

Isa& chosen_isa() {
  static Isa isa = choose_isa();
  return isa;
}

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::string_view kNames[] = {"portable",    "avx2",        "avx_vnni",    "avx512",
                                         "avx512_vnni", "avx512_bf16", "amx",         "neon",
                                         "dotprod",     "i8mm",        "amx_emulated"};
  return kNames[static_cast<std::size_t>(isa)];
}

Isa machine_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd")) {
    if (!__builtin_cpu_supports("avx512vnni")) return Isa::avx512;
    const bool has_bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
    if (!has_bf16) return Isa::avx512_vnni;
    const bool has_tiles = amx_is_permitted() && (!is_compiled(Isa::amx) || amx_tiles_work());
    return has_tiles ? Isa::amx : Isa::avx512_bf16;
  }
  // Every processor with AVX2 has F16C, which clang 14 cannot query.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return has_avx_vnni() ? Isa::avx_vnni : Isa::avx2;
#elif defined(__aarch64__) && defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return Isa::neon;
  const bool has_matrices =
      (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0 && (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
  return has_matrices ? Isa::i8mm : Isa::dotprod;
#elif defined(__aarch64__)
  return Isa::neon;
#endif
  return Isa::portable;
}

Isa best_isa() { return best_compiled(machine_isa()); }

// clang 14 cannot query it.
bool has_avx_vnni() {
#if defined(__x86_64__)
  constexpr unsigned kAvxVnni = 1U << 4;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
#else
  return false;
#endif
}

bool bf16_pairs_are_fast() {
#if defined(__x86_64__)
  return active_isa() == Isa::avx512_bf16 && __builtin_cpu_is("amd");
#else
  return active_isa() == Isa::i8mm;
#endif
}

Isa active_isa() { return chosen_isa(); }

void lower_isa(Isa isa) { chosen_isa() = std::min(isa, chosen_isa()); }

Isa common_isa(Isa other, bool other_has_fast_pairs) {
  const Isa own = active_isa();
  // Emulated tiles come with portable kernels.
  if (std::max(own, other) == Isa::amx_emulated) return own == other ? own : Isa::portable;
  Isa common = std::min(own, other);
  if (is_of_arm(own) != is_of_arm(other)) common = Isa::portable;
  if (!has(std::max(own, other), common)) common = Isa::avx2;
  const bool alike = common != Isa::avx512_bf16 || bf16_pairs_are_fast() == other_has_fast_pairs;
  return best_compiled(alike ? common : Isa::avx512_vnni);
}

}  // namespace tp::kernels
