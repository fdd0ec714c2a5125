// The inner loops over packed weights, compiled once per instruction set; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/pack/scaled_format.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// Panels of a packed weight times some tokens. Only the activations that the kernel needs are set.
struct PanelProduct {
  const unsigned char* panels;  // the first panel
  std::size_t panel_bytes;
  std::size_t count;        // number of panels
  std::size_t in_features;  // int8, int4: padded like in PackedLayout
  std::size_t tokens;

  const float* x;  // f32, f16, bf16: [tokens, x_stride]
  std::size_t x_stride;
  const std::uint32_t* x_pairs;  // bf16, e4m3 by pairs: [tokens, in_features / 2], two bf16 each
  // int8, int4: group by group. So the groups of many tokens are adjacent in the first-level cache, and few
  // addresses suffice.
  const std::int8_t* x_bytes;         // [in_features / 32, tokens_apart][32]
  const float* x_scales;              // [in_features / 32, tokens_apart]
  const std::int32_t* x_corrections;  // [in_features / 32, tokens_apart], see PackedKernels::quantize
  std::size_t tokens_apart;           // from one group of a token to the next

  float* y;  // [tokens, y_stride], from the first panel's outputs on
  std::size_t y_stride;
  // Instead of y, sums of leaves (see leaf_sum.h), each of `leaf` features of these activations. int8 and
  // int4: a multiple of 32.
  double* sums;
  std::size_t leaf;
  std::size_t leaf_bytes;  // f32, f16, bf16: bytes from one leaf of a panel to the next

  std::size_t out_features;  // outputs of these panels; the last panel may be incomplete

  // Types with a QuantFormat. Activations are x_bytes with x_scales and, for each group of the format,
  // x_corrections or, if it has offsets, x_sums: see QuantKernels::sum_groups. [groups, tokens_apart].
  const QuantFormat* format;
  const float* x_sums;
  std::size_t first_block;  // see PackedLayout
  std::size_t front;        // columns of zeros before the first leaf, a multiple of 32

  // Types with a ScaledFormat, whose activations are floats.
  const ScaledFormat* scaled;
  unsigned char* scratch;              // this thread's scratch of ScaledKernels::scratch_bytes(...)
  const std::uint16_t* column_groups;  // [in_features], or null
};

struct PackedKernels {
  void (*f32)(const PanelProduct& product);
  void (*f16)(const PanelProduct& product);
  void (*bf16)(const PanelProduct& product);
  // bf16 with activations rounded to bf16. Null unless the machine multiplies pairs of bf16.
  void (*bf16_pairs)(const PanelProduct& product);
  void (*int8)(const PanelProduct& product);

  // Quantizes groups of 32 to elements from -127 to 127 and a scale. Products with weights that are stored
  // plus `offset` are too large; the correction of a group compensates: -offset times the sum of its
  // elements. `size` is a multiple of 32. Writes the results of one token in the layout of PanelProduct.
  void (*quantize)(const float* x, std::size_t size, std::int32_t offset, std::int8_t* bytes, float* scales,
                   std::int32_t* corrections, std::size_t tokens_apart);
  // Rounds pairs to bf16; `size` is even.
  void (*round_pairs)(const float* x, std::size_t size, std::uint32_t* pairs);
};

// Kernels for the types with a QuantFormat.
struct QuantKernels {
  void (*multiply)(const PanelProduct& product);
  // Multiplies int4, whose panels have the layout of kInt4SymG32. Leaves may be padded. `format` is not read.
  void (*multiply_int4)(const PanelProduct& product);

  // For each group of the format in a row of integers: the correction, -zero times the sum of the elements.
  // If the format has offsets, also the sum of the elements times the scale, negative if offsets are
  // subtracted. `size` is a multiple of 32.
  void (*sum_groups)(const QuantFormat& format, const std::int8_t* bytes, const float* scales,
                     std::size_t size, std::int32_t* corrections, float* sums, std::size_t tokens_apart);
};

// Kernels for the types with a ScaledFormat.
struct ScaledKernels {
  void (*multiply)(const PanelProduct& product);
  // For a thread that multiplies at most `panels` panels by at most `tokens` tokens.
  std::size_t (*scratch_bytes)(const ScaledFormat& format, std::size_t in_features, std::size_t panels,
                               std::size_t tokens);
  // e4m3 with x_pairs. Null unless the machine multiplies pairs of bf16. Does not support sums of leaves.
  void (*multiply_pairs)(const PanelProduct& product);
  std::size_t (*pair_scratch_bytes)(std::size_t in_features, std::size_t panels, std::size_t tokens);
};

// The machine's peak rates, for benchmarks. `stream` reads `bytes` bytes, a multiple of 512, like products
// do, and returns a value that depends on all of them. The others multiply and add in registers only,
// `rounds` times, and return the number of multiplications and additions. Null if the machine has no such
// instruction.
struct PeakKernels {
  float (*stream)(const unsigned char* data, std::size_t bytes);
  double (*multiply_f32)(std::size_t rounds);
  double (*multiply_bf16)(std::size_t rounds);
  double (*multiply_int8)(std::size_t rounds);
};

// The kernels of the active instruction set.
const PackedKernels& packed_kernels();
const QuantKernels& quant_kernels();
const ScaledKernels& scaled_kernels();
PeakKernels peak_kernels();

}  // namespace tp::kernels
