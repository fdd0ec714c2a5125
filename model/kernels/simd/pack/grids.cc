#include "model/kernels/simd/pack/grids.h"

#include "model/kernels/simd/pack/grid_entries.h"

namespace tp::kernels {
namespace {

// The bytes of the levels; see grids.h.
constexpr std::uint8_t kIq2Bytes[] = {128 + 8, 128 + 25, 128 + 43, 0};
constexpr std::uint8_t kIq3XxsBytes[] = {128 + 4,  128 + 12, 128 + 20, 128 + 28,
                                         128 + 36, 128 + 44, 128 + 52, 128 + 62};
constexpr std::uint8_t kIq3SBytes[] = {128 + 1, 128 + 3,  128 + 5,  128 + 7,
                                       128 + 9, 128 + 11, 128 + 13, 128 + 15};
constexpr std::uint8_t kIq1Bytes[] = {128 - 7, 128 + 1, 128 + 9, 0};

template <std::size_t kWidth, std::size_t kEntries, std::size_t kLevels>
constexpr Grid<kEntries, kWidth> unpacked(const std::uint16_t (&entries)[kEntries],
                                          const std::uint8_t (&levels)[kLevels]) {
  constexpr std::size_t kBits = kLevels == 4 ? 2 : 3;
  Grid<kEntries, kWidth> out{};
  for (std::size_t i = 0; i < kEntries * kWidth; ++i) {
    const std::size_t level = entries[i / kWidth] >> (i % kWidth * kBits) & (kLevels - 1);
    out.words[i / 4] |= static_cast<std::uint32_t>(levels[level]) << (i % 4 * 8);
  }
  for (std::size_t i = 0; i < kEntries; ++i) {
    out.bytes[0][i] = static_cast<std::uint8_t>(entries[i]);
    out.bytes[1][i] = static_cast<std::uint8_t>(entries[i] >> 8);
  }
  for (std::size_t i = 0; i < 8; ++i) out.levels[i] = levels[i % kLevels];
  return out;
}

}  // namespace

constexpr Grid<256, 8> kIq2XxsRows = unpacked<8>(kIq2XxsEntries, kIq2Bytes);
constexpr Grid<512, 8> kIq2XsRows = unpacked<8>(kIq2XsEntries, kIq2Bytes);
constexpr Grid<1024, 8> kIq2SRows = unpacked<8>(kIq2SEntries, kIq2Bytes);
constexpr Grid<256, 4> kIq3XxsRows = unpacked<4>(kIq3XxsEntries, kIq3XxsBytes);
constexpr Grid<512, 4> kIq3SRows = unpacked<4>(kIq3SEntries, kIq3SBytes);
constexpr Grid<2048, 8> kIq1Rows = unpacked<8>(kIq1Entries, kIq1Bytes);

}  // namespace tp::kernels
