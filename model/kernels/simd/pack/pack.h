// Packs rows of weights to panels; compiled once per instruction set; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// Up to 16 rows of stored elements, which become one panel.
struct PanelSource {
  DType type;
  const unsigned char* data;  // may be unaligned
  std::size_t rows;
  std::size_t columns;
  std::size_t stride;  // bytes from one row to the next
};

// Up to 16 rows of groups of 32 elements with a scale each.
struct GroupSource {
  const std::int8_t* elements;  // [rows, stride]
  std::size_t stride;
  const std::uint16_t* scales;  // [rows, scale_stride], f16
  std::size_t scale_stride;
  std::size_t rows;
  std::size_t columns;  // a multiple of 32
};

// Up to 16 rows of super-blocks; see QuantizedRows.
struct QuantSource {
  const QuantFormat& format;
  const std::uint8_t* elements;
  const std::uint8_t* scales;
  const std::uint8_t* offsets;
  const std::uint16_t* halves;
  std::size_t rows;
  std::size_t super_blocks;
  std::size_t first_block;  // first block of the panel, counted from the first super-block
  std::size_t blocks;
};

// Each kernel writes a panel of a PackedLayout, rounds elements to its type, and pads with zeros.
struct PackKernels {
  void (*f32)(const PanelSource& source, unsigned char* panel);
  void (*f16)(const PanelSource& source, unsigned char* panel);
  void (*bf16)(const PanelSource& source, unsigned char* panel);
  void (*int8)(const PanelSource& source, unsigned char* panel);
  void (*int4)(const PanelSource& source, unsigned char* panel);
  void (*int8_groups)(const GroupSource& source, unsigned char* panel);
  void (*int4_groups)(const GroupSource& source, unsigned char* panel);
  void (*quantized)(const QuantSource& source, unsigned char* panel);
};

// The kernels of the active instruction set.
const PackKernels& pack_kernels();

}  // namespace tp::kernels
