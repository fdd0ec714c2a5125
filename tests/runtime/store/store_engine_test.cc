// One engine stores prompts, and another one with different ranks reads them. The results equal those of
// computed prompts.
#include "model/config/architectures.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/cached_fixtures.h"
#include "tests/runtime/store/store_run.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tp {
namespace {

using reference::Fixture;
using test::asked;
using test::computed;
using test::Continuation;
using test::expect_same;
using test::on_ranks;
using test::options_for;
using test::rank_counts;
using test::run_alone;
using test::StoreFolderTest;

class StoredFamily : public testing::TestWithParam<Fixture> {};

// The prompt of 41 tokens and the answer of 12 fill 13 blocks. The prompt can read 10 of them.
TEST_P(StoredFamily, GivesTheBitsOfComputedPromptsOnOtherRanks) {
  const StoreFolderTest store;
  const EngineOptions options = options_for(GetParam(), store);
  const Request request = asked(test::varied_prompt(GetParam().prompt, 41, 0));
  const Continuation expected = computed(options, request);
  const std::size_t writers = std::min<std::size_t>(2, test::world().size());
  on_ranks(writers, options, [&](Engine& engine) {
    expect_same(run_alone(engine, request), expected);
    EXPECT_EQ(engine.status().store.restored_tokens, 0U);
  });
  for (const std::size_t ranks : rank_counts()) {
    SCOPED_TRACE(testing::Message() << "read on " << ranks << " ranks");
    on_ranks(ranks, options, [&](Engine& engine) {
      const Continuation read = run_alone(engine, request);
      expect_same(read, expected);
      EXPECT_EQ(read.cached_tokens, 40U);
      const StoreStatus status = engine.status().store;
      EXPECT_EQ(status.restored_tokens, 40U);
      EXPECT_EQ(status.damaged_files, 0U);
    });
  }
}

// Compares tokens and the bits of log-probabilities for every type of cache.
TEST(Store, GivesTheBitsOfComputedPromptsWithCachesOfEveryType) {
  for (const char* name : {"llama-gqa", "gptoss", "deepseek3-yarn", "qwen35", "glm52dsa", "minimaxm3",
                           "qwen4exp", "deepseekv4", "deepseekv41", "deepseekv41-rounded"}) {
    for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
      SCOPED_TRACE(testing::Message() << name << ", " << name_of(type));
      const Fixture fixture = reference::fixture(name);
      const StoreFolderTest store;
      EngineOptions options = options_for(fixture, store);
      options.kv_type = type;
      const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
      const Continuation expected = computed(options, request);
      for (const std::size_t ranks : {test::world().size(), std::size_t{1}, test::world().size()}) {
        on_ranks(ranks, options, [&](Engine& engine) { expect_same(run_alone(engine, request), expected); });
      }
      on_ranks(1, options, [&](Engine& engine) {
        EXPECT_EQ(run_alone(engine, request).cached_tokens, 40U);
        EXPECT_EQ(engine.status().store.restored_tokens, 40U);
      });
    }
  }
}

// Each prompt is stored in several files. The models have full, windowed, latent and recurrent layers, and
// indexers.
TEST(Store, ReadsLongPromptsUpToWhereTheyDiverge) {
  for (const char* name : {"gemma4", "glm4moelite", "qwen35", "lfm2", "kimilinear", "deepseekv32",
                           "minimaxm3", "qwen4exp", "deepseekv4", "deepseekv41"}) {
    SCOPED_TRACE(name);
    const Fixture fixture = reference::fixture(name);
    const StoreFolderTest store;
    EngineOptions options = options_for(fixture, store);
    options.prefill_chunk = 200;
    options.max_length = 1500;
    options.block_size = 16;
    const std::vector<TokenId> all = test::varied_prompt(fixture.prompt, 1400, 1);
    std::vector<TokenId> other(all.begin(), all.begin() + 1100);
    for (std::size_t i = 900; i < other.size(); ++i) other[i] = fixture.prompt[i % 3];
    const Continuation whole = computed(options, asked(all));
    const Continuation diverged = computed(options, asked(other));
    on_ranks(test::world().size(), options,
             [&](Engine& engine) { expect_same(run_alone(engine, asked(all)), whole); });
    for (const std::size_t ranks : rank_counts()) {
      on_ranks(ranks, options, [&](Engine& engine) {
        const Continuation read = run_alone(engine, asked(all));
        expect_same(read, whole);
        EXPECT_EQ(read.cached_tokens, 1392U);
        const Continuation partly = run_alone(engine, asked(other));
        expect_same(partly, diverged);
        // The first engine also stores the other prompt, so later engines read more of it.
        EXPECT_TRUE(ranks == 1 ? partly.cached_tokens >= 700 && partly.cached_tokens < 900
                               : partly.cached_tokens == 1088)
            << partly.cached_tokens;
      });
    }
  }
}

// The prompt of 250 tokens is stored as one run, when all but the last blocks of the windows of 8 have been
// evicted from a cache for one sequence. Another prompt that continues differently needs blocks that were
// evicted.
TEST(Store, KeepsRunsWhoseFirstBlocksHaveLeftTheWindow) {
  for (const char* name : {"gemma4", "gptoss", "deepseekv4", "deepseekv41"}) {
    SCOPED_TRACE(name);
    const Fixture fixture = reference::fixture(name);
    const StoreFolderTest store;
    EngineOptions options = options_for(fixture, store);
    options.max_sequences = 1;
    options.max_length = 270;
    const std::vector<TokenId> all = test::varied_prompt(fixture.prompt, 250, 1);
    std::vector<TokenId> other(all.begin(), all.begin() + 150);
    other.push_back(all[0] == all[150] ? all[1] : all[0]);
    const Continuation whole = computed(options, asked(all));
    const Continuation diverged = computed(options, asked(other));
    on_ranks(test::world().size(), options,
             [&](Engine& engine) { expect_same(run_alone(engine, asked(all)), whole); });
    for (const std::size_t ranks : rank_counts()) {
      on_ranks(ranks, options, [&](Engine& engine) {
        const Continuation read = run_alone(engine, asked(all));
        expect_same(read, whole);
        EXPECT_EQ(read.cached_tokens, 248U);
        EXPECT_EQ(engine.status().store.dropped_runs, 0U);
      });
    }
    on_ranks(1, options, [&](Engine& engine) {
      expect_same(run_alone(engine, asked(other)), diverged);
      EXPECT_EQ(engine.status().store.damaged_files, 0U);
      expect_same(run_alone(engine, asked(all)), whole);
    });
  }
}

TEST(Store, ContinuesConversationsAcrossEngines) {
  const Fixture fixture = reference::fixture("qwen35");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  std::vector<TokenId> text = test::varied_prompt(fixture.prompt, 17, 0);
  for (int turn = 0; turn < 3; ++turn) {
    const Continuation expected = computed(options, asked(text));
    on_ranks(test::world().size(), options, [&](Engine& engine) {
      const Continuation read = run_alone(engine, asked(text));
      expect_same(read, expected);
      // An answer's last token is not computed before the next turn.
      EXPECT_EQ(read.cached_tokens, turn == 0 ? 0 : (text.size() - 3) / 4 * 4) << "turn " << turn;
      text.insert(text.end(), expected.tokens.begin(), expected.tokens.end());
      text.insert(text.end(), {5, 6});
    });
  }
  if (!test::world().is_root()) return;
  const std::vector<std::filesystem::path> files = store.files();
  EXPECT_EQ(std::ranges::count_if(files, [](const auto& file) { return file.string().ends_with("-k0h0"); }),
            1)
      << "a longer run replaces a shorter one";
}

// On the main thread, a store copies only recurrent states, and between two steps only those of one position.
TEST(Store, CopiesAtMostOneStatePerStep) {
  for (const char* name : {"llama-gqa", "qwen35"}) {
    const Fixture fixture = reference::fixture(name);
    const StoreFolderTest store;
    std::vector<RankTrace> traces;
    on_ranks(test::world().size(), options_for(fixture, store), [&](Engine& engine) {
      engine.start_trace();
      for (const std::size_t first : {0U, 1U, 2U})
        engine.submit(asked(test::varied_prompt(fixture.prompt, 41, first)));
      test::run_all(engine);
      while (engine.wait_for_work(std::chrono::nanoseconds(0))) engine.step();
      traces = engine.traces();
    });
    if (!test::world().is_root()) continue;
    // Sums the bytes of each run over all ranks. Runs of different lengths have states of different sizes,
    // and the ids of runs depend on the build.
    std::map<std::string, std::uint64_t> states;
    for (const std::filesystem::path& file : store.files()) {
      const std::string file_name = file.filename().string();
      if (file_name.find("-s") == std::string::npos) continue;
      states[file_name.substr(0, file_name.find('-'))] += std::filesystem::file_size(file);
    }
    std::uint64_t stored_state = 0;  // size of the largest run
    for (const auto& [id, bytes] : states) stored_state = std::max(stored_state, bytes);
    std::uint64_t copied = 0;
    for (const RankTrace& trace : traces) {
      for (const TraceEvent& event : trace.events) {
        if (event.activity != Activity::store) continue;
        EXPECT_LE(event.detail, stored_state) << name;
        copied += event.detail;
      }
    }
    EXPECT_EQ(copied > 0, stored_state > 0) << name;
    EXPECT_EQ(stored_state > 0, std::string_view(name) == "qwen35");
  }
}

TEST(Store, IgnoresShortPromptsOtherSaltsAndRequestsWithoutCache) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  const auto expect_restored = [&](const Request& request, std::size_t tokens) {
    on_ranks(test::world().size(), options, [&](Engine& engine) {
      run_alone(engine, request);
      EXPECT_EQ(engine.status().store.restored_tokens, tokens);
    });
  };
  Request request = asked(test::varied_prompt(fixture.prompt, 21, 0));
  request.cache_prompt = false;
  expect_restored(request, 0);
  request.cache_prompt = true;
  expect_restored(request, 0);
  expect_restored(request, 20);
  request.cache_salt = "a";
  expect_restored(request, 0);
  expect_restored(request, 20);
  request.cache_prompt = false;
  expect_restored(request, 0);
  const Request shorter = asked(test::varied_prompt(fixture.prompt, 7, 0));
  expect_restored(shorter, 0);
  expect_restored(shorter, 0);
}

// Engines with different types, overrides or models use different folders.
TEST(Store, DoesNotMixWhatOtherEnginesCompute) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  const Request request = asked(test::varied_prompt(fixture.prompt, 21, 0));
  std::vector<EngineOptions> different(6, options);
  different[1].kv_type = KvType::bf16;
  different[2].weights = WeightType::int8;
  different[3].block_size = 8;
  different[4].same_bits = false;
  different[5].model = reference::fixture("qwen3").folder;
  for (const EngineOptions& other : different) {
    on_ranks(test::world().size(), other, [&](Engine& engine) {
      run_alone(engine, request);
      EXPECT_EQ(engine.status().store.restored_tokens, 0U);
      EXPECT_EQ(engine.status().store.damaged_files, 0U);
    });
  }
}

// The edited bytes are far from the beginning of a tensor, and the file keeps its modification time.
TEST(Store, DoesNotAnswerForAModelThatWasEdited) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  const StoreFolderTest copy;
  EngineOptions options = options_for(fixture, store);
  const std::filesystem::path weights = copy.path() / "model.safetensors";
  std::filesystem::copy(fixture.folder, copy.path(), std::filesystem::copy_options::recursive);
  std::filesystem::permissions(weights, std::filesystem::perms::owner_all);
  options.model = test::of_root(copy.path());
  const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
  const std::size_t ranks = test::world().size();
  on_ranks(ranks, options, [&](Engine& engine) { run_alone(engine, request); });
  if (test::world().is_root()) {
    const std::filesystem::file_time_type time = std::filesystem::last_write_time(weights);
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(std::filesystem::file_size(weights) / 3 + 1000);
    std::string bytes(2000, '\0');
    file.seekg(place).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    for (char& byte : bytes) byte = static_cast<char>(byte ^ 1);
    file.seekp(place).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    std::filesystem::last_write_time(weights, time);
  }
  const Continuation expected = computed(options, request);
  on_ranks(ranks, options, [&](Engine& engine) {
    expect_same(run_alone(engine, request), expected);
    EXPECT_EQ(engine.status().store.restored_tokens, 0U);
  });
  on_ranks(ranks, options, [&](Engine& engine) {
    expect_same(run_alone(engine, request), expected);
    EXPECT_EQ(engine.status().store.restored_tokens, 40U);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Fixtures, StoredFamily,
    testing::ValuesIn(test::fixtures_with_cache(reference::fixtures_of(supported_architectures()))),
    reference::name_of_fixture);

}  // namespace
}  // namespace tp
