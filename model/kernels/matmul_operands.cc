#include "model/kernels/matmul_operands.h"

#include "model/kernels/simd/tiles/tile_product.h"

#include <cstdint>

namespace tp::kernels {
namespace {

// Activations as bytes with a scale for each group, and sums for types with a QuantFormat.
PanelProduct with_quantized(TensorView<const float> x, const PackedLayout& layout, float* scratch) {
  PanelProduct product{};
  product.format = quant_format(layout.type);
  const Filling filling = Filling::of(layout, PackedLayout::kBlock);
  const std::size_t padded = filling.columns;
  const std::size_t x_groups = padded / PackedLayout::kGroup;
  const std::size_t groups = padded / product.format->group;
  float* scales = scratch;
  float* sums = scales + x.rows() * x_groups;
  auto* corrections = reinterpret_cast<std::int32_t*>(sums);
  auto* bytes = reinterpret_cast<std::int8_t*>(sums + x.rows() * groups);
  float* copies = scratch + x.rows() * (x_groups + groups + padded / 4);
  for_rows(x, [&](std::size_t row) {
    const float* in = filling.row(x, row, copies + row * padded);
    std::int8_t* row_bytes = bytes + row * PackedLayout::kGroup;
    packed_kernels().quantize(in, padded, 0, row_bytes, scales + row, corrections + row, x.rows());
    quant_kernels().sum_groups(*product.format, row_bytes, scales + row, padded, corrections + row,
                               sums + row, x.rows());
  });
  product.in_features = padded;
  product.leaf = layout.leaf;
  product.x_bytes = bytes;
  product.tokens_apart = x.rows();
  product.x_scales = scales;
  product.x_corrections = corrections;
  product.x_sums = sums;
  product.first_block = layout.first_block();
  product.front = filling.front;
  return product;
}

// Activations as bytes with scales, for int8 and int4.
PanelProduct with_groups(TensorView<const float> x, const PackedLayout& layout, float* scratch) {
  PanelProduct product{};
  const Filling filling = Filling::of(layout, PackedLayout::kBlock);
  const std::size_t padded = filling.columns;
  const std::size_t groups = padded / PackedLayout::kGroup;
  const std::int32_t offset = layout.type == WeightType::int8 ? 128 : 8;
  float* scales = scratch;
  auto* corrections = reinterpret_cast<std::int32_t*>(scales + x.rows() * groups);
  auto* bytes = reinterpret_cast<std::int8_t*>(corrections + x.rows() * groups);
  float* copies = scratch + x.rows() * (2 * groups + padded / 4);
  for_rows(x, [&](std::size_t row) {
    const float* in = filling.row(x, row, copies + row * padded);
    packed_kernels().quantize(in, padded, offset, bytes + row * PackedLayout::kGroup, scales + row,
                              corrections + row, x.rows());
  });
  product.in_features = padded;
  product.leaf = layout.padded_leaf();
  product.x_bytes = bytes;
  product.tokens_apart = x.rows();
  product.x_scales = scales;
  product.x_corrections = corrections;
  return product;
}

}  // namespace

PanelProduct with_pairs(TensorView<const float> x, const PackedLayout& layout, float* scratch) {
  PanelProduct product{};
  const Filling filling = Filling::of(layout, 2);
  const std::size_t columns = filling.columns;
  auto* pairs = reinterpret_cast<std::uint32_t*>(scratch);
  float* copies = scratch + x.rows() * columns / 2;
  for_rows(x, [&](std::size_t row) {
    const float* in = filling.row(x, row, copies + row * columns);
    packed_kernels().round_pairs(in, columns, pairs + row * columns / 2);
  });
  product.in_features = columns;
  product.leaf = layout.padded_leaf();
  product.x_pairs = pairs;
  product.scaled = &layout.scaled;
  return product;
}

PanelProduct with_bytes(TensorView<const float> x, const PackedLayout& layout, float* scratch) {
  return quant_format(layout.type) == nullptr ? with_groups(x, layout, scratch)
                                              : with_quantized(x, layout, scratch);
}

PanelProduct with_floats(TensorView<const float> x, const PackedView& weight) {
  const PackedLayout& layout = weight.layout;
  PanelProduct product{};
  product.format = quant_format(layout.type);  // only without input features
  product.in_features = x.columns();
  product.leaf = layout.leaf;
  product.leaf_bytes = layout.leaf_bytes();
  product.x = x.data();
  product.x_stride = x.stride();
  product.scaled = &layout.scaled;
  product.column_groups = weight.column_groups();
  return product;
}

TiledRows to_tiles(TensorView<const float> x, float* scratch) {
  auto* tiles = reinterpret_cast<std::uint32_t*>(scratch);
  const std::size_t blocks = (x.rows() + kTileBlock - 1) / kTileBlock;
  for_thread_parts(blocks, x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block) {
      tile_kernels()->round_block(x.data(), x.stride(), x.rows(), x.columns(), block * kTileBlock, tiles);
    }
  });
  return {tiles, x.rows(), x.columns()};
}

std::size_t bytes_scratch(const PackedLayout& weight, std::size_t tokens) {
  const QuantFormat* const format = quant_format(weight.type);
  const std::size_t padded = weight.padded_in_features();
  const std::size_t groups = padded / (format == nullptr ? PackedLayout::kGroup : format->group);
  return tokens * (padded / 4 + padded / PackedLayout::kGroup + groups);
}

}  // namespace tp::kernels
