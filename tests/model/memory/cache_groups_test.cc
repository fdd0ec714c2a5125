#include "model/memory/cache_groups.h"

#include "model/config/architectures.h"
#include "model/memory/kv_cache.h"

#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

// A model of which these layers have windows.
ModelSpec model_with(const std::vector<CacheWindow>& windows) {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_hidden_layers = windows.size();
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 100;
  ModelSpec spec = make_spec(config);
  for (std::size_t layer = 0; layer < windows.size(); ++layer)
    std::get<AttentionSpec>(spec.blocks[layer].attention).pattern.window = windows[layer];
  return spec;
}

// Every `period`-th of the layers sees everything.
ModelSpec alternating(std::size_t layers, std::size_t period, std::size_t window) {
  std::vector<CacheWindow> windows(layers, window);
  for (std::size_t layer = period - 1; layer < layers; layer += period) windows[layer].reset();
  return model_with(windows);
}

void expect_consistent(const ModelSpec& spec, const CacheGroups& groups) {
  ASSERT_EQ(groups.places.size(), spec.blocks.size());
  std::set<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const auto& [group, slot] = groups.places[layer].value();
    EXPECT_LT(slot, groups.slots);
    EXPECT_TRUE(taken.emplace(group, slot).second) << "two layers in one place";
    EXPECT_EQ(groups.windows.at(group), std::get<AttentionSpec>(spec.blocks[layer].attention).pattern.window);
  }
}

TEST(CacheGroups, AreOneIfAllLayersSeeEquallyFar) {
  const CacheGroups full = CacheGroups::of(model_with({{}, {}, {}}), 1);
  EXPECT_EQ(full.windows, CacheWindows{std::nullopt});
  EXPECT_EQ(full.slots, 3U);
  const CacheGroups windowed = CacheGroups::of(model_with({4096, 4096}), 1);
  EXPECT_EQ(windowed.windows, CacheWindows{4096});
  EXPECT_EQ(windowed.slots, 2U);
}

TEST(CacheGroups, HaveTheSameNumberOfLayersAndHardlyAnyRoomThatNoLayerUses) {
  struct Case {
    std::size_t layers, period, slots, groups;
  };
  for (const Case& c : {Case{26, 2, 13, 2}, Case{48, 6, 8, 6}, Case{26, 6, 2, 13}, Case{34, 6, 5, 7},
                        Case{62, 6, 5, 13}, Case{2, 2, 1, 2}}) {
    SCOPED_TRACE(testing::Message() << c.layers << " layers, of which every " << c.period << "th has none");
    const ModelSpec spec = alternating(c.layers, c.period, 1024);
    const CacheGroups groups = CacheGroups::of(spec, 1);
    EXPECT_EQ(groups.slots, c.slots);
    EXPECT_EQ(groups.windows.size(), c.groups);
    expect_consistent(spec, groups);
  }
}

// Like Gemma 4 26B: every 6th layer sees everything, with other heads than the layers with windows.
ModelSpec mixed(std::size_t layers, std::size_t window) {
  ModelSpec spec = alternating(layers, 6, window);
  for (BlockSpec& block : spec.blocks) {
    auto& attention = std::get<AttentionSpec>(block.attention);
    attention.num_attention_heads = 16;
    attention.num_key_value_heads = attention.pattern.window ? 8 : 2;
    attention.head_dim = attention.pattern.window ? 256 : 512;
  }
  return spec;
}

std::vector<kernels::KvLayout> layouts_of(const ModelSpec& spec, std::size_t ranks, KvType type) {
  std::vector<kernels::KvLayout> layouts;
  for (const BlockSpec& block : spec.blocks) {
    const auto& attention = std::get<AttentionSpec>(block.attention);
    const std::size_t heads = (attention.num_key_value_heads + ranks - 1) / ranks;
    layouts.push_back({type, heads, 16, attention.head_dim, attention.head_dim});
  }
  return layouts;
}

TEST(CacheGroups, HaveBlocksOfSimilarBytesIfLayersDifferInSize) {
  struct Case {
    std::size_t ranks, groups, slots;
  };
  for (const Case& c : {Case{1, 14, 5}, Case{2, 14, 5}, Case{4, 6, 5}, Case{16, 18, 2}}) {
    SCOPED_TRACE(testing::Message() << c.ranks << " ranks");
    const ModelSpec spec = mixed(30, 1024);
    const CacheGroups groups = CacheGroups::of(spec, c.ranks);
    EXPECT_EQ(groups.windows.size(), c.groups);
    EXPECT_EQ(groups.slots, c.slots);
    expect_consistent(spec, groups);
    // The layers that see everything leave no byte of their blocks unused.
    const std::vector<kernels::KvLayout> layouts = layouts_of(spec, c.ranks, KvType::bf16);
    std::size_t used = 0;
    for (std::size_t layer = 0; layer < layouts.size(); ++layer)
      used += groups.places[layer]->group == groups.places[5]->group ? layouts[layer].block_bytes() : 0;
    EXPECT_EQ(block_bytes(layouts, groups), used);
  }
}

TEST(CacheGroups, AreFewIfOneLayerDiffersInSize) {
  ModelSpec spec = alternating(4, 2, 8);
  std::get<AttentionSpec>(spec.blocks[1].attention).num_key_value_heads = 4;
  const CacheGroups groups = CacheGroups::of(spec, 1);
  EXPECT_EQ(groups.windows, (CacheWindows{8, std::nullopt, std::nullopt}));
  expect_consistent(spec, groups);
}

TEST(CacheGroups, KeepTheEarlierChunks) {
  ModelSpec spec = model_with({8, 8});
  for (BlockSpec& block : spec.blocks)
    std::get<AttentionSpec>(block.attention).pattern = {.chunk = 8, .chunks_before = 2};
  EXPECT_EQ(CacheGroups::of(spec, 1).windows, CacheWindows{24});
}

// As of Reformer: what a token gives depends on those that follow, and nothing of a step is kept.
TEST(CacheGroups, ShareOnePlaceIfSequencesAreComputedWhole) {
  ModelSpec spec = model_with({{}, {}});
  spec.recomputes = true;
  EXPECT_EQ(CacheGroups::of(spec, 1).slots, 1U);
}

TEST(CacheGroups, KeepNoMoreThanAChunk) {
  ModelSpec spec = model_with({{}, {}, {}, {}});
  for (std::size_t layer = 0; layer < 3; ++layer)
    std::get<AttentionSpec>(spec.blocks[layer].attention).pattern = {.chunk = 8192};
  EXPECT_EQ(CacheGroups::of(spec, 1).windows, (CacheWindows{8192, 8192, 8192, std::nullopt}));
}

// As Qwen3-Next: layers with attention between such as keep a state, which take nothing of a block.
TEST(CacheGroups, LeaveOutRecurrentLayers) {
  ModelSpec spec = model_with({{}, {}, {}, {}});
  for (const std::size_t layer : {0U, 2U})
    spec.blocks[layer].attention = GatedDeltaNetSpec{.num_key_heads = 2,
                                                     .num_value_heads = 4,
                                                     .key_head_dim = 8,
                                                     .value_head_dim = 8,
                                                     .conv_kernel = 4,
                                                     .norm = {}};
  CacheGroups groups = CacheGroups::of(spec, 1);
  EXPECT_EQ(groups.windows, CacheWindows{std::nullopt});
  EXPECT_EQ(groups.slots, 2U);
  EXPECT_TRUE(groups.has_states && groups.with_layers({1, 2}).has_states);
  EXPECT_FALSE(groups.places[0] || groups.places[2]);
  EXPECT_EQ(groups.places[1], (CacheGroups::Place{0, 0}));
  EXPECT_EQ(groups.places[3], (CacheGroups::Place{0, 1}));
  std::get<AttentionSpec>(spec.blocks[3].attention).pattern.window = 8;
  groups = CacheGroups::of(spec, 1);
  EXPECT_EQ(groups.windows, (CacheWindows{std::nullopt, 8}));
  EXPECT_EQ(groups.slots, 1U);
  spec.blocks[1].attention = spec.blocks[3].attention = spec.blocks[0].attention;
  for (const auto& place : CacheGroups::of(spec, 1).places) EXPECT_FALSE(place);
}

TEST(StateCache, GivesEveryLayerItsPartOfASlot) {
  const std::vector<std::size_t> floats = {5, 0, 20};
  const StateCache states(floats, 3);
  EXPECT_EQ(StateCache::slot_bytes(floats), (16 + 32) * sizeof(float));
  EXPECT_EQ(states.capacity_bytes(), 3 * (16 + 32) * sizeof(float));
  for (std::size_t slot = 0; slot < 3; ++slot) {
    for (const std::size_t layer : {0U, 2U})
      std::fill_n(states.layer(layer).at(slot), floats[layer], static_cast<float>(10 * slot + layer));
  }
  states.copy(2, 0);
  states.copy(1, 1);
  for (const std::size_t layer : {0U, 2U}) {
    for (std::size_t i = 0; i < floats[layer]; ++i) {
      EXPECT_EQ(states.layer(layer).at(0)[i], static_cast<float>(20 + layer));
      EXPECT_EQ(states.layer(layer).at(1)[i], static_cast<float>(10 + layer));
    }
  }
}

// Layers of different groups share the bytes of a slot, those of one group share nothing.
TEST(KvCache, GivesEveryLayerTheBytesOfItsSlot) {
  const CacheGroups groups = CacheGroups::of(alternating(6, 3, 8), 1);
  const kernels::KvLayout layout{KvType::f32, 2, 4, 8, 8};
  const std::vector<kernels::KvLayout> layouts(6, layout);
  const KvCache cache(layouts, groups, 10);
  EXPECT_EQ(groups.slots, 2U);
  EXPECT_EQ(cache.groups(), 3U);
  EXPECT_EQ(block_bytes(layouts, groups), 2 * layout.block_bytes());
  EXPECT_EQ(cache.capacity_bytes(), 10 * 2 * layout.block_bytes());
  for (std::size_t one = 0; one < 6; ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      const bool same_slot = groups.places[one]->slot == groups.places[other]->slot;
      EXPECT_EQ(cache.layer(one).base == cache.layer(other).base, same_slot);
    }
  }
}

// No byte belongs to two layers of a group, or to two blocks of any groups.
TEST(KvCache, SeparatesBlocksOfDifferentGroups) {
  const ModelSpec spec = mixed(12, 8);
  constexpr std::size_t kBlocks = 3;
  for (const std::size_t ranks : {1U, 3U, 4U}) {
    const CacheGroups groups = CacheGroups::of(spec, ranks);
    const std::vector<kernels::KvLayout> layouts = layouts_of(spec, ranks, KvType::int8);
    const KvCache cache(layouts, groups, kBlocks);
    const auto overlap = [&](std::size_t one, std::size_t block, std::size_t other, std::size_t other_block) {
      const std::byte* const a = cache.layer(one).head(block, 0);
      const std::byte* const b = cache.layer(other).head(other_block, 0);
      return a < b + layouts[other].block_bytes() && b < a + layouts[one].block_bytes();
    };
    for (std::size_t one = 0; one < layouts.size(); ++one) {
      for (std::size_t other = 0; other < layouts.size(); ++other) {
        const bool same_group = groups.places[one]->group == groups.places[other]->group;
        for (std::size_t i = 0; i < kBlocks * kBlocks; ++i) {
          const std::size_t block = i / kBlocks;
          const std::size_t other_block = i % kBlocks;
          const bool may = block == other_block && (!same_group || one == other);
          EXPECT_TRUE(may || !overlap(one, block, other, other_block))
              << "layers " << one << ", " << other << ", blocks " << block << ", " << other_block;
        }
      }
      const std::byte* const end = cache.layer(one).head(kBlocks - 1, 0) + layouts[one].block_bytes();
      EXPECT_LE(static_cast<std::size_t>(end - cache.layer(0).base), cache.capacity_bytes());
    }
  }
}

}  // namespace
}  // namespace tp
