#include "model/memory/buffer.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tp/error.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer<float>>, "a copy would share the memory");

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// Returns this process's resident memory.
std::size_t resident_bytes() {
  std::size_t size = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * page_bytes();
}

TEST(Buffer, BeginsOnAPageWithZeros) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    const Buffer<unsigned char> buffer(bytes, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % page_bytes(), 0U);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes, [](unsigned char c) { return c == 0; }));
  }
}

TEST(Buffer, WithoutElementsHasNoMemory) { EXPECT_EQ(Buffer<float>(0, "a test").data(), nullptr); }

// Whatever goes in between: no neighbour is written to, and memory comes back as zeros or not at all.
TEST(Buffer, KeepsItsContentsWhenNeighboursComeAndGo) {
  constexpr std::size_t kSize = 3000;
  std::vector<Buffer<unsigned char>> kept;
  for (unsigned char round = 1; round < 60; ++round) {
    const Buffer<unsigned char> passing(kSize, "a test");
    std::fill_n(passing.data(), kSize, static_cast<unsigned char>(255));
    kept.emplace_back(kSize, "a test");
    ASSERT_TRUE(
        std::all_of(kept.back().data(), kept.back().data() + kSize, [](unsigned char c) { return c == 0; }));
    std::fill_n(kept.back().data(), kSize, round);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (std::size_t j = 0; j < kSize; ++j) ASSERT_EQ(kept[i][j], i + 1) << j;
  }
}

TEST(Buffer, MovesItsContents) {
  Buffer<int> from(10, "a test");
  from[9] = 7;
  const int* data = from.data();
  const Buffer<int> to(std::move(from));
  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(to[9], 7);
}

TEST(Buffer, GivesMemoryBackWhileNeighboursLive) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  const Buffer<unsigned char> before(1, "a test");
  std::size_t full = 0;
  {
    const Buffer<unsigned char> large(kBytes, "a test");
    std::fill_n(large.data(), kBytes, static_cast<unsigned char>(1));
    full = resident_bytes();
  }
  // A huge page at either end may be a neighbour's, too.
  EXPECT_LE(resident_bytes() + kBytes - (std::size_t{4} << 20), full);
}

TEST(Buffer, IsFoundByItsUseWhileItLives) {
  const auto found = [] {
    std::vector<const void*> data;
    for (const std::span<const std::byte> memory : memory_of("finding")) {
      EXPECT_EQ(memory.size() % page_bytes(), 0U);
      data.push_back(memory.data());
    }
    return data;
  };
  const Buffer<int> other(10, "not finding");
  EXPECT_TRUE(found().empty());
  Buffer<int> small(10, "finding");
  const Buffer<int> moved(std::move(small));
  EXPECT_EQ(found(), std::vector<const void*>({moved.data()}));
  {
    const Buffer<std::byte> large(std::size_t{200} << 20, "finding");
    EXPECT_EQ(found().size(), 2U);
  }
  EXPECT_EQ(found().size(), 1U);
}

TEST(Buffer, NamesTheMemoryThatItCannotReserve) {
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] {
                    const Buffer<unsigned char> buffer(std::numeric_limits<std::size_t>::max() / 4,
                                                       "the moon");
                  }),
                  "for the moon");
}

}  // namespace
}  // namespace tp
