#include "model/checkpoint/widen.h"

#include <cstring>

namespace tp {
namespace {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian, and read as they are");

template <class Convert>
void widen_16_bits(const std::byte* __restrict from, std::size_t count, float* __restrict to,
                   Convert convert) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    to[i] = convert(bits);
  }
}

}  // namespace

void widen(DType type, const std::byte* from, std::size_t count, float* to) {
  if (count == 0) return;
  switch (type) {
    case DType::f32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::f16:
      return widen_16_bits(from, count, to, [](std::uint16_t bits) { return float_from_f16(bits); });
    case DType::bf16:
      return widen_16_bits(from, count, to, [](std::uint16_t bits) { return float_from_bf16(bits); });
  }
}

}  // namespace tp
