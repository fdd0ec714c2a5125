#include "parallel/exchange/shared_window.h"

#include "parallel/exchange/host_memory.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kPiece = WindowSlot::kPieceBytes;
constexpr std::size_t kPage = WindowSlot::kPageBytes;

// The reader of a byte of a buffer.
std::size_t reader(const WindowLayout& layout, std::size_t rank, std::size_t buffer, std::size_t byte) {
  return layout.reader(rank, WindowSlot::kPageBytes + buffer * kPiece + byte);
}

TEST(SharedWindow, IsNearItsOwnerIfAllRanksReadIt) {
  const WindowLayout two{2, false};
  for (const std::size_t rank : {0, 1}) {
    for (std::size_t offset = 0; offset < two.slot_bytes(); offset += kPage)
      EXPECT_EQ(two.reader(rank, offset), rank) << offset;
  }
}

// Pages of x86, and those that a system on ARM may choose.
TEST(SharedWindow, HasEachPageInTheMemoryOfOneRankWhateverItsSize) {
  for (const std::size_t page : {4096, 16384, 65536}) {
    for (const WindowLayout layout : {WindowLayout{1, false}, WindowLayout{2, false}, WindowLayout{3, false},
                                      WindowLayout{8, false}, WindowLayout{4, true}}) {
      const std::size_t share = (layout.slot_bytes() + page - 1) / page * page;
      std::vector<std::size_t> owners(layout.ranks * share / page);
      for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
        const auto reader = [&](std::size_t of, std::size_t offset) { return layout.reader(of, offset); };
        for (const PageRun& run : pages_read_by(rank, layout.ranks, share, page, reader)) {
          ASSERT_EQ(run.begin % page, 0U);
          ASSERT_EQ(run.bytes % page, 0U);
          for (std::size_t at = run.begin; at < run.begin + run.bytes; at += page) ++owners.at(at / page);
        }
      }
      EXPECT_EQ(std::ranges::count(owners, 1U), static_cast<std::ptrdiff_t>(owners.size())) << page;
    }
  }
}

// Else a page would hold the ends of two buffers, which different ranks read.
TEST(SharedWindow, HasBuffersThatBeginWithAPage) {
#if defined(__aarch64__)
  constexpr std::size_t kPages[] = {4096, 16384, 65536};
#else
  constexpr std::size_t kPages[] = {4096};
#endif
  for (const std::size_t page : kPages) {
    EXPECT_EQ(sizeof(WindowSlot) % page, 0U);
    EXPECT_EQ(WindowSlot::kPieceBytes % page, 0U);
    for (const bool several_hosts : {false, true})
      EXPECT_EQ((WindowLayout{2, several_hosts}.slot_bytes() % page), 0U) << page;
  }
}

TEST(SharedWindow, IsNearTheHostRootWhereItAddsUpForAll) {
  const WindowLayout layout{4, true};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(layout.reader(rank, 0), rank) << "where the rank announces its phase";
    EXPECT_EQ(reader(layout, rank, 0, 0), 0U);
    EXPECT_EQ(reader(layout, rank, 1, kPiece - 1), 0U);
    EXPECT_EQ(layout.place(rank, 64), 0U);
  }
}

TEST(SharedWindow, IsNearTheRankThatAddsAPart) {
  const WindowLayout layout{4, false};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (const std::size_t buffer : {0, 1}) {
      for (std::size_t part = 0; part < 4; ++part) {
        EXPECT_EQ(reader(layout, rank, buffer, part * kPiece / 4), part);
        EXPECT_EQ(reader(layout, rank, buffer, (part + 1) * kPiece / 4 - 1), part);
      }
    }
  }
}

TEST(SharedWindow, HasSmallAddendsInTheirRanksOwnPart) {
  constexpr std::size_t kSmall = WindowLayout::kTwoShotBytes - sizeof(double);
  for (const std::size_t ranks : {3, 4, 5, 8}) {
    const WindowLayout layout{ranks, false};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t begin = layout.place(rank, kSmall);
      EXPECT_EQ(begin % 64, 0U);
      // Parts end within a cache line.
      EXPECT_EQ(reader(layout, rank, 0, begin + 64), rank) << ranks;
      EXPECT_EQ(reader(layout, rank, 0, begin + kSmall - 64), rank) << ranks;
    }
  }
}

TEST(SharedWindow, HasRoomForEveryAddend) {
  for (std::size_t ranks = 1; ranks < 200; ++ranks) {
    for (const std::size_t bytes :
         {std::size_t{8}, WindowLayout::kTwoShotBytes - 8, WindowLayout::kTwoShotBytes, kPiece}) {
      for (const bool several_hosts : {false, true}) {
        const WindowLayout layout{ranks, several_hosts};
        EXPECT_LE(layout.place(ranks - 1, bytes) + bytes, kPiece) << ranks << ", " << bytes;
        EXPECT_LT(reader(layout, ranks - 1, 1, kPiece - 1), ranks);
      }
    }
  }
}

}  // namespace
}  // namespace tp
