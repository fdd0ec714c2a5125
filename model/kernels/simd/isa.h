// Which instruction set the kernels use, chosen when the program runs.
#pragma once

#include <string_view>

namespace tp::kernels {

// In ascending order; a machine that has one has those before it. avx512 is that of Skylake, avx512_vnni of
// Cascade Lake and Ice Lake, avx512_bf16, which has VBMI as well, of Zen 4. The last one is for tests only:
// AMX's tile instructions in plain C++, on any machine; all else is portable.
enum class Isa { portable, avx2, avx512, avx512_vnni, avx512_bf16, amx, amx_emulated };

std::string_view name_of(Isa isa);

// The best that this machine has and the program was compiled for.
Isa best_isa();

// What the kernels use: best_isa(), or the one that the environment variable TP_ISA names. Throws ConfigError
// if TP_ISA names none that this machine has.
Isa active_isa();

// The best instruction set that this machine, with active_isa(), and one with `other` both have. Of those
// with avx512_bf16, some multiply pairs of bf16 and others do not.
Isa common_isa(Isa other, bool other_has_fast_pairs);
// Makes the kernels use a lower one. Not while an engine exists.
void lower_isa(Isa isa);

// Whether a product of bf16 pairs takes less time than two float32 products: true of AMD's vdpbf16ps, while
// Intel's takes four times as long as a float32 multiply-add.
bool bf16_pairs_are_fast();

}  // namespace tp::kernels
