// The inner loops over packed weights, compiled once for every instruction set; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/pack/scaled_format.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// Panels of a packed weight times some tokens. Only the activations that the kernel takes are given.
struct PanelProduct {
  const unsigned char* panels;  // the first panel
  std::size_t panel_bytes;
  std::size_t count;        // of panels
  std::size_t in_features;  // int8, int4: filled up as in PackedLayout
  std::size_t tokens;

  const float* x;  // f32, f16, bf16: [tokens, x_stride]
  std::size_t x_stride;
  const std::uint32_t* x_pairs;  // bf16, e4m3 by pairs: [tokens, in_features / 2], two bf16 each
  // int8, int4: group by group, so that those of many tokens are side by side in the first-level cache and a
  // few addresses suffice for all.
  const std::int8_t* x_bytes;         // [in_features / 32, tokens_apart][32]
  const float* x_scales;              // [in_features / 32, tokens_apart]
  const std::int32_t* x_corrections;  // [in_features / 32, tokens_apart], see PackedKernels::quantize
  std::size_t tokens_apart;           // from a token's group to its next one

  float* y;  // [tokens, y_stride], the outputs of the first panel first
  std::size_t y_stride;
  // In place of y, the sums of leaves, see leaf_sum.h: of every `leaf` features of the activations given;
  // int8 and int4: a multiple of 32.
  double* sums;
  std::size_t leaf;
  std::size_t leaf_bytes;  // f32, f16, bf16: from one leaf of a panel to the next

  std::size_t out_features;  // of these panels; the last one may be cut short

  // Types with a QuantFormat. Activations are x_bytes with x_scales and, for every group of the format,
  // x_corrections or, if it has offsets, x_sums: see QuantKernels::sum_groups. [groups, tokens_apart].
  const QuantFormat* format;
  const float* x_sums;
  std::size_t first_block;  // see PackedLayout
  std::size_t front;        // columns of zeros before the first leaf, a multiple of 32

  // Types with a ScaledFormat, which take floats.
  const ScaledFormat* scaled;
  unsigned char* scratch;              // of this thread, ScaledKernels::scratch_bytes(...)
  const std::uint16_t* column_groups;  // [in_features], or null
};

struct PackedKernels {
  void (*f32)(const PanelProduct& product);
  void (*f16)(const PanelProduct& product);
  void (*bf16)(const PanelProduct& product);
  // The same with activations rounded to bf16, for machines that multiply such pairs; else null.
  void (*bf16_pairs)(const PanelProduct& product);
  void (*int8)(const PanelProduct& product);

  // Quantizes groups of 32 to elements in -127..127 and a scale. A group's correction is what its product
  // with weights that are stored with `offset` added has too much: -offset times the elements' sum. `size` is
  // a multiple of 32; results are those of one token, as PanelProduct has them.
  void (*quantize)(const float* x, std::size_t size, std::int32_t offset, std::int8_t* bytes, float* scales,
                   std::int32_t* corrections, std::size_t tokens_apart);
  // Rounds pairs to bf16; `size` is even.
  void (*round_pairs)(const float* x, std::size_t size, std::uint32_t* pairs);
};

// The same for the quantized types of GGUF files.
struct QuantKernels {
  void (*multiply)(const PanelProduct& product);
  // Of int4, whose panels are those of kInt4SymG32; leaves may be filled up, and `format` is not read.
  void (*multiply_int4)(const PanelProduct& product);

  // Of what a row's groups of integers are times its scales: of every group of the format, its correction,
  // -zero times the elements' sum; if it has offsets, the elements' sum times the scale, negative where
  // offsets are subtracted. `size` is a multiple of 32.
  void (*sum_groups)(const QuantFormat& format, const std::int8_t* bytes, const float* scales,
                     std::size_t size, std::int32_t* corrections, float* sums, std::size_t tokens_apart);
};

// The same for types with a ScaledFormat.
struct ScaledKernels {
  void (*multiply)(const PanelProduct& product);
  // Of a thread that multiplies at most so many panels by at most so many tokens.
  std::size_t (*scratch_bytes)(const ScaledFormat& format, std::size_t in_features, std::size_t panels,
                               std::size_t tokens);
  // Of e4m3, with x_pairs, on machines that multiply such pairs; else null. There are no sums of leaves.
  void (*multiply_pairs)(const PanelProduct& product);
  std::size_t (*pair_scratch_bytes)(std::size_t in_features, std::size_t panels, std::size_t tokens);
};

// What the machine can do at best, for benchmarks. stream reads `bytes`, a multiple of 512, as the products
// do, and returns something that depends on all of them. The others do nothing but multiply and add in
// registers, `rounds` times, and return the number of multiplications and additions; null where there is no
// such instruction.
struct PeakKernels {
  float (*stream)(const unsigned char* data, std::size_t bytes);
  double (*multiply_f32)(std::size_t rounds);
  double (*multiply_bf16)(std::size_t rounds);
  double (*multiply_int8)(std::size_t rounds);
};

// Those of the active instruction set.
const PackedKernels& packed_kernels();
const QuantKernels& quant_kernels();
const ScaledKernels& scaled_kernels();
PeakKernels peak_kernels();

}  // namespace tp::kernels
