#include "model/weights/packing_fingerprint.h"

#include "model/kernels/packed_weight.h"
#include "parallel/hash.h"

#include <cstddef>
#include <vector>

namespace tp {

std::uint64_t packing_fingerprint() {
  using namespace kernels;
  constexpr std::size_t kRows = 24;     // a panel that is cut short, too
  constexpr std::size_t kColumns = 96;  // so is a block
  std::vector<float> elements(kRows * kColumns);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = static_cast<float>(mixed(i) >> 40) / static_cast<float>(1 << 24) - 0.5F;
  const StoredRows rows = StoredRows::of({elements.data(), kRows, kColumns});
  std::uint64_t hash = hash_of("");
  for (const WeightType type :
       {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8, WeightType::int4}) {
    for (const std::size_t leaf : {0, 32, 40}) {
      const PackedLayout layout{type, kRows, kColumns, leaf != 0, leaf};
      std::vector<std::byte> packed(layout.bytes());
      pack_rows(layout, 0, rows, packed.data());
      hash = hash_of({reinterpret_cast<const char*>(packed.data()), packed.size()}, hash);
    }
  }
  std::vector<std::uint8_t> bytes(3 * kRows * QuantizedRows::kColumns);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(mixed(i) & 3);
  std::vector<std::uint16_t> halves(kRows * 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(mixed(i) & 0x3fff);
  const std::size_t plane = kRows * QuantizedRows::kColumns;
  const QuantizedRows quantized{kRows,        1, bytes.data(), bytes.data() + plane, bytes.data() + 2 * plane,
                                halves.data()};
  for (std::size_t i = 0; i <= static_cast<std::size_t>(WeightType::mxfp4); ++i) {
    const auto type = static_cast<WeightType>(i);
    if (quant_format(type) == nullptr) continue;
    const PackedLayout layout{type, kRows, kColumns, false, 0, 64};
    std::vector<std::byte> packed(layout.bytes());
    pack_quantized(layout, 0, quantized, packed.data());
    hash = hash_of({reinterpret_cast<const char*>(packed.data()), packed.size()}, hash);
  }
  return hash;
}

}  // namespace tp
