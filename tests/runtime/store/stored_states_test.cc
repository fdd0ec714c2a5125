// Files of recurrent states contain only the rows in use at their position, and they give the same bits as
// computed prompts.
#include "runtime/store/files/run_file.h"
#include "tests/runtime/store/store_run.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

namespace tp {
namespace {

using test::asked;
using test::computed;
using test::Continuation;
using test::expect_same;
using test::on_ranks;
using test::run_alone;
using test::StoreFolderTest;

constexpr std::size_t kAnchorTokens = 16;

// Blocks have one token, so that states can be stored at any position.
EngineOptions options_of_blocks_of_one(const reference::Fixture& fixture, const StoreFolderTest& store) {
  EngineOptions options = test::options_for(fixture, store);
  options.block_size = 1;
  options.max_sequences = 1;
  options.max_length = 256;
  return options;
}

// Returns a request that stores a state after its prompt's first `position` tokens.
Request prompt_after(const reference::Fixture& fixture, std::size_t position) {
  return asked(test::varied_prompt(fixture.prompt, position + 1, 0));
}

std::set<std::uintmax_t> sizes_of(const StoreFolderTest& store, const std::string& part) {
  std::set<std::uintmax_t> sizes;
  for (const std::filesystem::path& file : store.files()) {
    if (file.filename().string().ends_with("-" + part)) sizes.insert(std::filesystem::file_size(file));
  }
  return sizes;
}

// Returns the size of a part with a fixed number of floats (`always`) and `per_token` floats for each token
// since the anchor.
std::uintmax_t file_bytes(std::size_t always, std::size_t per_token, std::size_t position) {
  return run_offset(1) + (always + position % kAnchorTokens * per_token) * sizeof(float);
}

// qwen35 has three recurrent layers with 2 key heads of 16 floats, 4 value heads of 16 floats, and the
// convolution's inputs for 3 tokens. A key head stores its inputs for the query and the key, and the keys
// since the anchor. A value head stores a matrix, its inputs, and each token's addition and decay.
TEST(StoredStates, TakeTheRowsInUse) {
  const reference::Fixture fixture = reference::fixture("qwen35");
  constexpr std::size_t kLayers = 3;
  for (const std::size_t position : {std::size_t{65}, std::size_t{127}, std::size_t{128}}) {
    SCOPED_TRACE(position);
    const StoreFolderTest store;
    on_ranks(test::world().size(), options_of_blocks_of_one(fixture, store),
             [&](Engine& engine) { run_alone(engine, prompt_after(fixture, position)); });
    if (!test::world().is_root()) continue;
    const std::uintmax_t key_head = file_bytes(kLayers * 2 * 3 * 16, kLayers * 16, position);
    const std::uintmax_t value_head = file_bytes(kLayers * (16 * 16 + 3 * 16), kLayers * (16 + 1), position);
    EXPECT_TRUE(sizes_of(store, "s0h1").contains(key_head)) << key_head;
    EXPECT_TRUE(sizes_of(store, "s0h5").contains(value_head)) << value_head;
    const std::uintmax_t largest = file_bytes(kLayers * 2 * 3 * 16, kLayers * 16, kAnchorTokens - 1);
    EXPECT_EQ(*sizes_of(store, "s0h1").rbegin() == largest, position == 127);
  }
}

// Gated delta nets, Kimi delta attention, Mamba-2 mixers beside attention, short convolutions, RWKV-7, a hash
// table beside a gated delta net, and compressed attention beside a window, with and without shared pools.
TEST(StoredStates, GiveTheBitsOfComputedPromptsAtEveryDistanceFromTheAnchor) {
  for (const char* name : {"qwen35", "kimilinear", "falconh1", "lfm2", "rwkv7-8heads", "qwen4exp",
                           "deepseekv4", "deepseekv41"}) {
    const reference::Fixture fixture = reference::fixture(name);
    for (const std::size_t position : {std::size_t{65}, std::size_t{127}, std::size_t{128}}) {
      SCOPED_TRACE(testing::Message() << name << " at " << position);
      const StoreFolderTest store;
      const EngineOptions options = options_of_blocks_of_one(fixture, store);
      const Request request = prompt_after(fixture, position);
      const Continuation expected = computed(options, request);
      on_ranks(test::world().size(), options, [&](Engine& engine) { run_alone(engine, request); });
      // The other prompt leaves more rows in the slot of the state.
      Request other = asked(test::varied_prompt(fixture.prompt, 175, 1));
      other.cache_prompt = false;
      for (const std::size_t ranks : {std::size_t{1}, test::world().size()}) {
        SCOPED_TRACE(testing::Message() << "read on " << ranks);
        on_ranks(ranks, options, [&](Engine& engine) {
          run_alone(engine, other);
          const Continuation read = run_alone(engine, request);
          expect_same(read, expected);
          EXPECT_EQ(read.cached_tokens, position);
          EXPECT_EQ(engine.status().store.damaged_files, 0U);
        });
      }
    }
  }
}

}  // namespace
}  // namespace tp
