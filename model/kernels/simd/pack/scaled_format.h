// Layout of panels whose elements share scales over any blocks of rows and columns; see simd.h for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// e4m3: F8_E4M3. bytes and half_bytes: unsigned numbers minus a zero point. nf4: indices of kNf4Values.
enum class ScaledElement : std::uint8_t { e4m3, bytes, half_bytes, nf4 };
// Whether two elements share a byte.
constexpr bool are_halves(ScaledElement element) {
  return element == ScaledElement::half_bytes || element == ScaledElement::nf4;
}
enum class ScaleType : std::uint8_t { f32, f16, bf16 };

// Quantiles of the normal distribution. Source: bitsandbytes, get_4bit_type("nf4").
inline constexpr float kNf4Values[16] = {-1.0F,         -0.696192801F, -0.525073051F, -0.394917488F,
                                         -0.284441382F, -0.18477343F,  -0.091050036F, 0.0F,
                                         0.0795802996F, 0.160930201F,  0.246112302F,  0.337915242F,
                                         0.44070983F,   0.562617004F,  0.722956836F,  1.0F};

// An element's value is element * scale, or (element - zero point) * scale, rounded once to float32.
//
// A panel of 16 rows consists of
//   scale_rows < 16: [16] bytes, the index of each row's scale;
//   [groups][scale_rows] scales of scale_type;
//   has_zero_points: [groups][scale_rows] bytes;
//   zeros up to a multiple of 16 bytes;
//   e4m3, bytes: [in_features][16] bytes; half_bytes, nf4: [in_features / 2][16] bytes, with the first of two
//     columns in the low half.
// If scales belong to blocks of 128 x 128, the rows of a panel usually share one scale.
struct ScaledFormat {
  static constexpr std::size_t kRows = 16;

  ScaledElement element = ScaledElement::e4m3;
  ScaleType scale_type = ScaleType::f32;
  bool has_zero_points = false;
  std::size_t scale_rows = kRows;
  std::size_t groups = 0;
  // Columns that share a scale. The first group begins `phase` columns before the panel. 0: a list contains
  // the group of each column.
  std::size_t group = 0;
  std::size_t phase = 0;

  bool operator==(const ScaledFormat&) const = default;

  // Zero point of types without stored zero points.
  constexpr int zero() const {
    return element == ScaledElement::bytes ? 128 : element == ScaledElement::half_bytes ? 8 : 0;
  }
  constexpr std::size_t scale_bytes() const { return scale_type == ScaleType::f32 ? 4 : 2; }
  constexpr std::size_t scales_place() const { return scale_rows < kRows ? kRows : 0; }
  constexpr std::size_t zero_points_place() const {
    return scales_place() + groups * scale_rows * scale_bytes();
  }
  constexpr std::size_t elements_place() const {
    const std::size_t end = zero_points_place() + (has_zero_points ? groups * scale_rows : 0);
    return (end + kRows - 1) / kRows * kRows;
  }
  constexpr std::size_t element_bytes(std::size_t columns) const {
    return (are_halves(element) ? (columns + 1) / 2 : columns) * kRows;
  }
  constexpr std::size_t panel_bytes(std::size_t columns) const {
    return columns == 0 ? 0 : elements_place() + element_bytes(columns);
  }

  // The group of a column, and the end of the run of columns that share it.
  constexpr std::size_t group_of(std::size_t column, const std::uint16_t* list) const {
    return group == 0 ? list[column] : (phase + column) / group;
  }
  constexpr std::size_t end_of_group(std::size_t column) const {
    return group == 0 ? column + 1 : ((phase + column) / group + 1) * group - phase;
  }
};

}  // namespace tp::kernels
