#include "model/weights/gguf/gguf_quantize.h"

#include "model/weights/gguf/gguf_codebooks.h"
#include "model/weights/gguf/gguf_quantize_k.h"
#include "model/weights/gguf/super_block_fit.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace tp {
namespace {

constexpr std::size_t kGroup = 32;

using Levels = std::array<std::uint8_t, kGroup>;  // indices, as stored

void store(std::uint16_t bits, std::uint8_t* to) { std::memcpy(to, &bits, sizeof bits); }

// Stores elements i and i + 16 in one byte; returns the end.
std::uint8_t* store_nibbles(const Levels& levels, std::uint8_t* to) {
  for (std::size_t i = 0; i < kGroup / 2; ++i)
    to[i] = static_cast<std::uint8_t>((levels[i] & 15) | (levels[i + kGroup / 2] & 15) << 4);
  return to + kGroup / 2;
}

std::uint8_t* store_fifth_bits(const Levels& levels, std::uint8_t* to) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < kGroup; ++i) bits |= (levels[i] >> 4 & 1U) << i;
  std::memcpy(to, &bits, sizeof bits);
  return to + sizeof bits;
}

template <class LevelsOfType>
Levels leveled(const Group<kGroup>& group, float scale, float offset = 0.0F) {
  const Leveled<LevelsOfType, kGroup> nearest(group, scale, offset);
  Levels levels;
  for (std::size_t i = 0; i < kGroup; ++i) levels[i] = LevelsOfType::index_of(nearest.levels[i]);
  return levels;
}

// Stores an f16 scale, fifth bits (if any), and four bits of each element.
template <class LevelsOfType, bool has_fifth_bits>
void encode_scaled(const float* elements, std::uint8_t* block) {
  const Group<kGroup> group(elements);
  const Half scale(fit_scale<LevelsOfType>(group).scale);
  const Levels levels = leveled<LevelsOfType>(group, scale.value);
  store(scale.bits, block);
  block += 2;
  if (has_fifth_bits) block = store_fifth_bits(levels, block);
  store_nibbles(levels, block);
}

// Like encode_scaled, with an f16 offset after the scale.
template <class LevelsOfType, bool has_fifth_bits>
void encode_with_offset(const float* elements, std::uint8_t* block) {
  const Group<kGroup> group(elements);
  const GroupFit fit = fit_scale_and_offset<LevelsOfType, Offsets::any>(group);
  const Half scale(fit.scale);
  const Half offset(fit.offset);
  const Levels levels = leveled<LevelsOfType>(group, scale.value, offset.value);
  store(scale.bits, block);
  store(offset.bits, block + 2);
  block += 4;
  if (has_fifth_bits) block = store_fifth_bits(levels, block);
  store_nibbles(levels, block);
}

// With 255 levels, a search would gain next to nothing. -128 is not used, like in all int8 groups.
void encode_q8_0(const float* elements, std::uint8_t* block) {
  float max = 0.0F;
  for (std::size_t i = 0; i < kGroup; ++i) max = std::max(max, std::abs(elements[i]));
  const float scale = max / 127;
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  store(kernels::float_to_f16(scale), block);
  for (std::size_t i = 0; i < kGroup; ++i)
    block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(nearest_whole(elements[i] * inverse)));
}

// Twice the format's values, ascending.
constexpr std::array<std::int8_t, 15> kAscendingMxfp4 = {-12, -8, -6, -4, -3, -2, -1, 0,
                                                         1,   2,  3,  4,  6,  8,  12};

// The scale is a power of two: the one at which the largest element is just representable, half of it, or
// twice as much.
void encode_mxfp4(const float* elements, std::uint8_t* block) {
  const Group<kGroup> group(elements);
  float max = 0.0F;
  for (const float element : group.x) max = std::max(max, std::abs(element));
  using Fit = Leveled<TableLevels<kAscendingMxfp4>, kGroup>;
  const int middle = max == 0.0F ? 0 : std::ilogb(max) - 2;
  int exponent = 0;
  float error = std::numeric_limits<float>::infinity();
  for (const int candidate : {middle - 1, middle, middle + 1}) {
    const int stored = std::clamp(candidate + 127, 0, 254);
    const float now = Fit(group, std::ldexp(0.5F, stored - 127), 0.0F).error;
    if (now >= error) continue;
    error = now;
    exponent = stored;
  }
  const Fit fit(group, std::ldexp(0.5F, exponent - 127), 0.0F);
  Levels levels;
  for (std::size_t i = 0; i < kGroup; ++i) {
    const auto place = std::find(kMxfp4Levels.begin(), kMxfp4Levels.end(), fit.levels[i]);
    levels[i] = static_cast<std::uint8_t>(place - kMxfp4Levels.begin());
  }
  block[0] = static_cast<std::uint8_t>(exponent);
  store_nibbles(levels, block + 1);
}

struct Encoder {
  std::string_view name;
  void (*block)(const float* elements, std::uint8_t* block);
};

constexpr std::array kEncoders = {
    Encoder{"Q8_0", encode_q8_0},
    Encoder{"Q4_0", encode_scaled<WholeLevels<-8, 7>, false>},
    Encoder{"Q5_0", encode_scaled<WholeLevels<-16, 15>, true>},
    Encoder{"Q4_1", encode_with_offset<WholeLevels<0, 15>, false>},
    Encoder{"Q5_1", encode_with_offset<WholeLevels<0, 31>, true>},
    Encoder{"Q2_K", encode_q2_k},
    Encoder{"Q3_K", encode_q3_k},
    Encoder{"Q4_K", encode_q4_k},
    Encoder{"Q5_K", encode_q5_k},
    Encoder{"Q6_K", encode_q6_k},
    Encoder{"IQ4_NL", encode_scaled<TableLevels<kIq4Levels>, false>},
    Encoder{"IQ4_XS", encode_iq4_xs},
    Encoder{"MXFP4", encode_mxfp4},
};

const Encoder* find_encoder(const GgufType& type) {
  const auto found = std::ranges::find(kEncoders, type.name, &Encoder::name);
  return found == kEncoders.end() ? nullptr : found;
}

void store_plain(DType type, std::span<const float> row, std::byte* out) {
  if (type == DType::f32) {
    std::memcpy(out, row.data(), row.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::uint16_t bits =
        type == DType::f16 ? kernels::float_to_f16(row[i]) : kernels::float_to_bf16(row[i]);
    std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

void quantize(const GgufType& type, std::span<const float> row, std::byte* out) {
  if (const std::optional<DType> plain = plain_type(type)) return store_plain(*plain, row, out);
  const Encoder* const encoder = find_encoder(type);
  require<CheckpointError>(encoder != nullptr,
                           "expected a type that can be written, found {}; choose Q8_0, Q4_K or another type "
                           "that `tp-infer quantize --help` lists",
                           type.name);
  assert(row.size() % type.block_elements == 0);
  auto* block = reinterpret_cast<std::uint8_t*>(out);
  for (std::size_t i = 0; i < row.size(); i += type.block_elements, block += type.block_bytes)
    encoder->block(row.data() + i, block);
}

float largest_magnitude(const GgufType& type) {
  const bool has_range_of_f32 = type.name == "F32" || type.name == "BF16" || type.name == "MXFP4";
  return has_range_of_f32 ? std::numeric_limits<float>::max() : 65504.0F;
}

}  // namespace tp
