#include "model/weights/panel_queue.h"

#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::vector<std::size_t> taken_by(PanelQueue& queue, std::size_t thread) {
  std::vector<std::size_t> panels;
  while (const std::optional<std::size_t> panel = queue.take(thread)) panels.push_back(*panel);
  return panels;
}

TEST(PanelQueue, GivesAThreadItsOwnPartFirstAndThenOtherParts) {
  PanelQueue queue(10, 3);
  EXPECT_EQ(queue.take(2), 7u);
  EXPECT_EQ(queue.take(0), 0u);
  EXPECT_EQ(taken_by(queue, 1), (std::vector<std::size_t>{4, 5, 6, 8, 9, 1, 2, 3}));
  for (std::size_t thread = 0; thread < 3; ++thread) EXPECT_EQ(queue.take(thread), std::nullopt);
}

TEST(PanelQueue, HasThreadsWithoutAPart) {
  PanelQueue few(2, 4);
  EXPECT_EQ(taken_by(few, 3), (std::vector<std::size_t>{0, 1}));
  PanelQueue none(0, 2);
  EXPECT_EQ(none.take(1), std::nullopt);
}

TEST(PanelQueue, GivesEveryPanelToOneThread) {
  constexpr std::size_t kPanels = 10'000;
  constexpr std::size_t kThreads = 4;
  PanelQueue queue(kPanels, kThreads);
  std::vector<std::vector<std::size_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] { taken[thread] = taken_by(queue, thread); });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> times(kPanels, 0);
  for (const std::vector<std::size_t>& panels : taken)
    for (const std::size_t panel : panels) ++times[panel];
  EXPECT_EQ(times, std::vector<int>(kPanels, 1));
}

}  // namespace
}  // namespace tp
