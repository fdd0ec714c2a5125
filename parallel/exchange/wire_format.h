// Encodings of the values that all-reduces send between hosts.
#pragma once

#include "tp/wire_type.h"

#include <cstddef>
#include <span>

namespace tp {

// Number of values in an encoded group. Parts of a message begin at group boundaries.
inline constexpr std::size_t kWireGroup = 32;

// Number of bytes in the encoding of `size` values.
std::size_t wire_bytes(WireType type, std::size_t size);

// Encodes values as wire_bytes(type, values.size()) bytes, or decodes them:
//
// - f32: unchanged.
// - bf16: rounded to nearest, ties to even.
// - int8: groups of kWireGroup values; the last group may be shorter. A group is encoded as a bf16 scale,
//   followed by integers in [-127, 127]. The scale is the smallest bf16 number such that no magnitude in the
//   group exceeds 127 times the scale. Errors are at most half the scale. A group with an infinity or NaN
//   becomes NaN, and a group whose scale would be subnormal becomes zero.
//
// Encodings don't depend on the machine.
void wire_encode(WireType type, std::span<const float> values, std::byte* bytes);
void wire_decode(WireType type, const std::byte* bytes, std::span<float> values);

}  // namespace tp
