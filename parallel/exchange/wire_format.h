// Values as all-reduces send them between hosts.
#pragma once

#include "tp/wire_type.h"

#include <cstddef>
#include <span>

namespace tp {

// Values that are encoded together: messages begin and end at multiples of this many.
inline constexpr std::size_t kWireGroup = 32;

// The bytes of so many values.
std::size_t wire_bytes(WireType type, std::size_t size);

// Encodes values to wire_bytes(type, values.size()) bytes, and decodes them:
//
// - f32: as they are;
// - bf16: rounded to nearest, ties to even;
// - int8: groups of kWireGroup values, the last one perhaps of fewer, each as a scale, which is a bf16 large
//   enough for the group's largest magnitude to be 127 of it at most, and then integers in [-127, 127]. The
//   error is at most half of the scale. A group with an infinity or NaN becomes NaN, and one whose scale
//   would be subnormal becomes zero.
//
// Equal values have equal bytes on any machine.
void wire_encode(WireType type, std::span<const float> values, std::byte* bytes);
void wire_decode(WireType type, const std::byte* bytes, std::span<float> values);

}  // namespace tp
