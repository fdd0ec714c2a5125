#pragma once

#include "parallel/exchange/wire_format.h"

#include <cstddef>
#include <vector>

namespace tp::test {

// The values as another host receives them.
inline std::vector<float> sent(WireType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(wire_bytes(type, values.size()));
  wire_encode(type, values, bytes.data());
  std::vector<float> received(values.size());
  wire_decode(type, bytes.data(), received);
  return received;
}

}  // namespace tp::test
