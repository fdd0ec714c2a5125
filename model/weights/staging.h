// Memory for the rows that a thread reads before it packs them.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// Holds floats, groups, or rows of a type that is packed as stored: super-blocks, or elements with the scales
// of blocks.
class Staging {
 public:
  enum class Form : std::uint8_t { floats, groups, quantized, scaled };

  // A whole panel, small enough to stay in a thread's cache.
  static constexpr std::size_t kRows = kernels::PackedLayout::kPanel;

  Staging(const kernels::PackedLayout& layout, Form form)
      : columns_(layout.in_features),
        scale_groups_(layout.scaled.groups),
        format_(kernels::quant_format(layout.type)) {
    if (form == Form::groups) {
      elements_.resize(kRows * columns_);
      halves_.resize(kRows * (columns_ / kernels::PackedLayout::kGroup));
    } else if (form == Form::quantized) {
      constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;
      super_blocks_ = (layout.phase + columns_ + kSuper - 1) / kSuper;
      const std::size_t blocks = kRows * super_blocks_;
      bytes_.resize(blocks * (kSuper + 2 * kernels::QuantizedRows::groups(*format_)));
      halves_.resize(blocks * kernels::QuantizedRows::halves_of(*format_));
    } else if (form == Form::scaled) {
      bytes_.resize(kRows * (columns_ + scale_groups_));
      words_.resize(kRows * scale_groups_);
    } else {
      floats_.resize(kRows * columns_);
    }
  }

  TensorView<float> floats(std::size_t rows) { return {floats_.data(), rows, columns_}; }
  kernels::GroupedRows groups(std::size_t rows) {
    return {{elements_.data(), rows, columns_},
            {halves_.data(), rows, columns_ / kernels::PackedLayout::kGroup}};
  }
  kernels::QuantizedRows quantized(std::size_t rows) {
    const std::size_t blocks = kRows * super_blocks_;
    std::uint8_t* const scales = bytes_.data() + blocks * kernels::QuantizedRows::kColumns;
    return {rows,
            super_blocks_,
            bytes_.data(),
            scales,
            scales + blocks * kernels::QuantizedRows::groups(*format_),
            halves_.data()};
  }
  // `scale_rows`: see ScaledRows.
  kernels::ScaledRows scaled(std::size_t rows, const std::uint8_t* scale_rows) {
    return {rows,          columns_,      scale_groups_,
            bytes_.data(), words_.data(), bytes_.data() + kRows * columns_,
            scale_rows};
  }

 private:
  std::size_t columns_;
  std::size_t scale_groups_;
  const kernels::QuantFormat* format_;
  std::size_t super_blocks_ = 0;
  std::vector<float> floats_;
  std::vector<std::int8_t> elements_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint16_t> halves_;
  std::vector<std::uint32_t> words_;
};

}  // namespace tp
