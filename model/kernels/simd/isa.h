// Chooses the instruction set of the kernels when the program runs.
#pragma once

#include <string_view>

namespace tp::kernels {

// In ascending order: a machine that has one also has those before it, except that avx512 lacks avx_vnni.
// avx_vnni is that of Alder Lake, avx512 of Skylake, avx512_vnni of Cascade Lake and Ice Lake, avx512_bf16
// (which includes VBMI) of Zen 4. amx_emulated is for tests only: AMX's tile instructions in plain C++, on
// any machine, with portable kernels otherwise. neon, dotprod and i8mm are those of 64-bit ARM, in ascending
// order, too: armv8-a has neon, Neoverse N1 and Cortex-A76 have dotprod, and Neoverse V1 and N2 have i8mm,
// which includes products of bf16.
enum class Isa {
  portable,
  avx2,
  avx_vnni,
  avx512,
  avx512_vnni,
  avx512_bf16,
  amx,
  neon,
  dotprod,
  i8mm,
  amx_emulated
};

std::string_view name_of(Isa isa);

// Whether this build has kernels for an instruction set: TP_CPUS in CMake.
bool is_compiled(Isa isa);

// The best instruction set that this machine has.
Isa machine_isa();

// The best instruction set that this machine has and the program was compiled for.
Isa best_isa();

// Whether this machine encodes avx_vnni's instruction as AVX-VNNI does. AVX-512 has an encoding of its own.
bool has_avx_vnni();

// The instruction set of the kernels: best_isa(), or the one that the environment variable TP_ISA names.
// Throws ConfigError if this machine or this build does not have it.
Isa active_isa();

// The best instruction set that this machine, with active_isa(), and a machine with `other` have in common.
// Machines with avx512_bf16 differ in whether they multiply pairs of bf16. x86 and ARM share portable.
Isa common_isa(Isa other, bool other_has_fast_pairs);
// Makes the kernels use a lower instruction set. Not while an engine exists.
void lower_isa(Isa isa);

// Whether a product of bf16 pairs takes less time than two float32 products. True for AMD's vdpbf16ps and
// ARM's bfmmla; Intel's vdpbf16ps takes four times as long as a float32 multiply-add.
bool bf16_pairs_are_fast();

}  // namespace tp::kernels
