#include "model/weights/finite_weights.h"

#include "model/files/printable.h"
#include "parallel/shard/vector_clones.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tp {
namespace {

// Exponent bits. All are set only in infinities and NaNs.
constexpr std::uint32_t kOfF32 = 0x7F800000;
constexpr std::uint16_t kOfF16 = 0x7C00;
constexpr std::uint16_t kOfBf16 = 0x7F80;
// The only NaN of e4m3, apart from its sign, and the only NaN of e8m0 (scales of one byte).
constexpr std::uint8_t kNanOfE4m3 = 0x7F;
constexpr std::uint8_t kNanOfE8m0 = 0xFF;

// Whether any of the numbers, which may be unaligned, has all of these bits. The loop has no branches.
template <class Number>
[[gnu::always_inline]] inline bool any_has(Number bits, const std::byte* numbers, std::size_t count) {
  Number found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Number number = 0;
    std::memcpy(&number, numbers + i * sizeof(number), sizeof(number));
    found |= static_cast<Number>((number & bits) == bits);
  }
  return found != 0;
}

TP_FOR_WIDE_VECTORS bool any_of_32_bits(const std::byte* numbers, std::size_t count, std::uint32_t bits) {
  return any_has(bits, numbers, count);
}

TP_FOR_WIDE_VECTORS bool any_of_16_bits(const std::byte* numbers, std::size_t count, std::uint16_t bits) {
  return any_has(bits, numbers, count);
}

bool any_byte(const std::uint8_t* bytes, std::size_t count, std::uint8_t bits) {
  return std::any_of(bytes, bytes + count, [bits](std::uint8_t byte) { return (byte & bits) == bits; });
}

bool is_spoilt(DType type, const std::byte* numbers, std::size_t count) {
  switch (type) {
    case DType::f32:
      return any_of_32_bits(numbers, count, kOfF32);
    case DType::f16:
      return any_of_16_bits(numbers, count, kOfF16);
    case DType::bf16:
      return any_of_16_bits(numbers, count, kOfBf16);
    default:
      return false;
  }
}

void require_that(bool is_finite, const WeightSource& source, const std::string& tensor) {
  if (is_finite) return;
  throw_error<CheckpointError>(
      "cannot load {}: expected numbers, found NaN or infinity, which are not finite; the checkpoint is "
      "damaged: convert it again, or download it again",
      printable(source.stored_name(tensor)));
}

template <class Number>
const std::byte* bytes_of(const Number* numbers) {
  return reinterpret_cast<const std::byte*>(numbers);
}

DType dtype_of(kernels::ScaleType type) {
  return type == kernels::ScaleType::f32   ? DType::f32
         : type == kernels::ScaleType::f16 ? DType::f16
                                           : DType::bf16;
}

}  // namespace

void require_finite(const WeightSource& source, const std::string& tensor, const StoredRows& rows) {
  for (std::size_t row = 0; row < rows.rows; ++row)
    require_that(!is_spoilt(rows.type, rows.data + row * rows.stride, rows.columns), source, tensor);
}

void require_finite(const WeightSource& source, const std::string& tensor, const kernels::GroupedRows& rows) {
  require_that(!is_spoilt(DType::f16, bytes_of(rows.scales.data()), rows.scales.size()), source, tensor);
}

void require_finite(const WeightSource& source, const std::string& tensor, const kernels::QuantizedRows& rows,
                    const kernels::QuantFormat& format) {
  using kernels::ScaleKind;
  const std::size_t blocks = rows.rows * rows.super_blocks;
  if (format.scales == ScaleKind::e8m0)
    return require_that(!any_byte(rows.scales, blocks * kernels::QuantizedRows::groups(format), kNanOfE8m0),
                        source, tensor);
  if (format.scales == ScaleKind::e4m3)
    return require_that(!is_spoilt(DType::f32, bytes_of(rows.halves), blocks), source, tensor);
  const bool is_bf16 = format.scales == ScaleKind::bf16 || format.scales == ScaleKind::zero_point_bf16;
  require_that(!is_spoilt(is_bf16 ? DType::bf16 : DType::f16, bytes_of(rows.halves),
                          blocks * kernels::QuantizedRows::halves_of(format)),
               source, tensor);
}

void require_finite(const WeightSource& source, const std::string& tensor, const kernels::ScaledRows& rows,
                    const kernels::ScaledFormat& format) {
  const bool is_e4m3 = format.element == kernels::ScaledElement::e4m3;
  require_that(!is_e4m3 || !any_byte(rows.elements, rows.rows * rows.columns, kNanOfE4m3), source, tensor);
  const std::size_t count = rows.rows * rows.groups;
  const DType type = dtype_of(format.scale_type);
  for (std::size_t i = 0; i < count; ++i)  // 16-bit scales are the lower halves of words
    require_that(!is_spoilt(type, bytes_of(rows.scales + i), 1), source, tensor);
}

}  // namespace tp
