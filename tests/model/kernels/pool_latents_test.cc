// Latents of pools of positions in the blocks of a cache, and runs of copies.
#include "model/kernels/paged_cache.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::KvLayout;
using kernels::PagedCache;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kLatentSize = 24;

KvLayout pool_layout(KvType type, std::size_t block_size, std::size_t pool) {
  return {.type = type,
          .kv_heads = 1,
          .block_size = block_size,
          .key_dim = kLatentSize,
          .value_dim = kLatentSize,
          .latent = true,
          .index_pool = pool,
          .pools_latents = pool != 1};
}

// Blocks of a layout, filled with 0xff.
class Blocks {
 public:
  Blocks(const KvLayout& layout, std::size_t count)
      : layout_(layout), memory_(count * layout.block_bytes(), std::byte{0xff}) {}
  PagedCache cache() { return {layout_, memory_.data(), layout_.block_bytes()}; }
  const std::vector<std::byte>& bytes() const { return memory_; }

 private:
  KvLayout layout_;
  std::vector<std::byte> memory_;
};

std::vector<const float*> latent_rows(const RandomTensor& latents, std::span<const std::int32_t> numbers) {
  std::vector<const float*> rows;
  for (const std::int32_t number : numbers)
    rows.push_back(latents.view().row(static_cast<std::size_t>(number)));
  return rows;
}

// A sequence's blocks lie in the cache in descending order. Some latents are stored twice: a later step
// replaces them.
TEST(PoolLatents, AreFoundInTheBlocksOfTheirPoolsLastPositions) {
  constexpr std::size_t kPositions = 90;
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (const std::size_t block_size : {1U, 2U, 5U, 16U}) {
      for (const std::size_t pool : {4U, 7U, 16U}) {
        SCOPED_TRACE(fmt::format("{}, blocks of {}, pools of {}", name_of(type), block_size, pool));
        Random random(block_size + pool);
        const std::size_t pools = kPositions / pool;
        const RandomTensor latents(random, pools, kLatentSize, 3);
        const std::size_t count = (kPositions + block_size - 1) / block_size;
        std::vector<std::int32_t> table(count);
        for (std::size_t i = 0; i < count; ++i) table[i] = static_cast<std::int32_t>(count - 1 - i);
        Blocks stored(pool_layout(type, block_size, pool), count);
        for (std::size_t number = pools; number-- > 0;) {
          kernels::store_pool_latent(latents.view().row(0), number, table, stored.cache());
          kernels::store_pool_latent(latents.view().row(number), number, table, stored.cache());
        }
        std::vector<std::int32_t> chosen(pools);
        std::iota(chosen.begin(), chosen.end(), 0);
        chosen.erase(chosen.begin() + 1);
        const KvLayout plain = pool_layout(type, 8, 1);
        Blocks copies(plain, 5);
        Blocks expected(plain, 5);
        kernels::copy_latents(stored.cache(), table, chosen, copies.cache(), {.first_block = 1});
        kernels::write_latents(latent_rows(latents, chosen), expected.cache(), {.first_block = 1});
        EXPECT_EQ(copies.bytes(), expected.bytes());
      }
    }
  }
}

TEST(PoolLatents, ContinueARunWithinABlockAndClearItsEnd) {
  Random random(2);
  const RandomTensor latents(random, 13, kLatentSize, 3);
  std::vector<std::int32_t> all(13);
  std::iota(all.begin(), all.end(), 0);
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    for (std::size_t first = 1; first < all.size(); ++first) {
      SCOPED_TRACE(fmt::format("{}, {} latents first", name_of(type), first));
      const KvLayout plain = pool_layout(type, 4, 1);
      Blocks expected(plain, 4);
      std::fill_n(expected.cache().base, 4 * plain.block_bytes(), std::byte{0});
      kernels::write_latents(latent_rows(latents, all), expected.cache(), {});
      Blocks in_parts(plain, 4);
      const std::span<const std::int32_t> numbers(all);
      kernels::write_latents(latent_rows(latents, numbers.first(first)), in_parts.cache(), {});
      kernels::write_latents(latent_rows(latents, numbers.subspan(first)), in_parts.cache(),
                             {.first_slot = first});
      EXPECT_EQ(in_parts.bytes(), expected.bytes());
    }
  }
}

TEST(PoolLatents, TakeRoomForPoolsOnly) {
  const KvLayout positions = pool_layout(KvType::f32, 128, 1);
  const KvLayout pools = pool_layout(KvType::f32, 128, 4);
  EXPECT_EQ(positions.head_bytes(), 128 * 32 * sizeof(float));
  EXPECT_EQ(pools.head_bytes(), 32 * 32 * sizeof(float));
  EXPECT_EQ(pool_layout(KvType::bf16, 16, 128).slots(), 1U);
}

}  // namespace
}  // namespace tp
