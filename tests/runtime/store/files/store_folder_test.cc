// The folder of a fingerprint, which ranks share and other processes may remove.
#include "runtime/store/files/store_folder.h"

#include "tests/temporary_directory.h"

#include <array>
#include <barrier>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Each rank finds no folder, and one of them creates it first.
TEST(StoreFolder, IsCreatedAgainBySeveralRanksAtTheSameTime) {
  constexpr std::size_t kRanks = 4;
  const test::TemporaryDirectory store;
  const StoreFolder folder(store.path(), "fingerprint", "a model");
  const std::vector<std::byte> bytes(1000);
  for (int round = 0; round < 200; ++round) {
    std::filesystem::remove_all(folder.path());
    std::barrier begin(kRanks);
    std::array<std::string, kRanks> errors;
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        begin.arrive_and_wait();
        errors[rank] = folder.write(folder.path() / std::to_string(rank), bytes);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(errors[rank], "") << "round " << round;
      ASSERT_TRUE(StoreFolder::exists(folder.path() / std::to_string(rank)));
    }
  }
}

}  // namespace
}  // namespace tp
