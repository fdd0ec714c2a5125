// Engines with a store of prompts, for tests with several numbers of ranks.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

// Runs `work` with an engine on the first `ranks` ranks. The other ranks wait.
inline void on_ranks(std::size_t ranks, const EngineOptions& options,
                     const std::function<void(Engine&)>& work, const EngineHooks& hooks = {}) {
  Communicator& world = test::world();
  std::vector<std::size_t> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  if (world.rank() < ranks) {
    Communicator some(world, members);
    run_engine(some, options, work, hooks);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Returns all numbers of ranks that this test can use.
inline std::vector<std::size_t> rank_counts() {
  std::vector<std::size_t> counts(world().size());
  std::iota(counts.begin(), counts.end(), 1);
  return counts;
}

inline Request asked(std::vector<TokenId> prompt) {
  Request request = greedy_request(std::move(prompt), 12);
  request.sampling.logprobs = 3;
  return request;
}

inline void expect_same(const Continuation& found, const Continuation& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.logprobs, expected.logprobs);
}

class StoreFolderTest {
 public:
  const std::filesystem::path& path() const { return directory_.path(); }
  // Returns the files of stored values.
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      if (!entry.is_directory() && entry.path().filename() != "model") all.push_back(entry.path());
    }
    std::ranges::sort(all);
    return all;
  }

 private:
  TemporaryDirectory directory_;
};

// Returns rank 0's path on every rank.
inline std::filesystem::path of_root(const std::filesystem::path& path) {
  std::string text = path.string();
  text.resize(4096);
  MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return text.c_str();
}

// Returns options with rank 0's folder. Other ranks name no folder.
inline EngineOptions options_for(const reference::Fixture& fixture, const StoreFolderTest& store) {
  return {.model = fixture.folder,
          .weights = WeightType::f32,
          .kv_type = KvType::f32,
          .same_bits = true,
          .kv_store = world().is_root() ? store.path() : std::filesystem::path(),
          .kv_store_min = 8,
          .prefill_chunk = 16,
          .max_length = 64,
          .block_size = 4};
}

inline Continuation computed(EngineOptions options, const Request& request) {
  options.kv_store.clear();
  Continuation result;
  on_ranks(1, options, [&](Engine& engine) { result = run_alone(engine, request); });
  return result;
}

}  // namespace tp::test
