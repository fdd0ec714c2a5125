#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"

#include <chrono>
#include <ctime>
#include <string>
#include <thread>

#include <boost/serialization/string.hpp>
#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(BroadcastBytes, ReplacesWhatOtherRanksHave) {
  Communicator& comm = test::world();
  for (const std::size_t size : {0U, 1U, 1000U, 300000U}) {
    reference::Random of_rank_0(5);
    const std::vector<float> expected = of_rank_0.numbers(size);
    std::vector<float> values = comm.is_root() ? expected : std::vector<float>(size, -1.0F);
    broadcast_bytes(comm, std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(values, expected);
  }
  EXPECT_EQ(comm.stats().broadcast.calls, 4U);
  EXPECT_EQ(comm.stats().broadcast.bytes, 301001U * sizeof(float));
}

// Followers wait for rank 0's next step as long as its user thinks.
TEST(BroadcastBytes, DoesNotBurnProcessorTimeWhileItWaits) {
  Communicator& comm = test::world();
  barrier(comm);
  const std::clock_t before = std::clock();
  if (comm.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  char byte = comm.is_root() ? 'x' : '-';
  broadcast_bytes(comm, std::as_writable_bytes(std::span(&byte, 1)));
  const double processor_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_EQ(byte, 'x');
  // 400 ms of spinning would be 0.4; sleeping in steps of a millisecond leaves a few percent.
  EXPECT_LT(processor_seconds, 0.2);
}

// Archives around the size that fits into the first message, and far beyond.
TEST(BroadcastObject, SendsObjectsOfEverySize) {
  Communicator& comm = test::world();
  const std::size_t overhead = to_archive(std::string()).size();
  for (const std::size_t archive_size : {overhead, std::size_t{100}, std::size_t{2039}, std::size_t{2040},
                                         std::size_t{2041}, std::size_t{5000}, std::size_t{1000000}}) {
    std::string expected;
    for (std::size_t i = 0; i < archive_size - overhead; ++i)
      expected.push_back(static_cast<char>(i * 7 % 251));
    std::string text = comm.is_root() ? expected : "other";
    broadcast_object(comm, text);
    EXPECT_EQ(text, expected) << archive_size;
  }
}

TEST(BroadcastObject, IsOneBroadcastIfShortAndTwoIfLong) {
  Communicator& comm = test::world();
  const std::size_t one = comm.size() == 1 ? 0 : 1;  // one rank has no other rank
  std::string text = "short";
  broadcast_object(comm, text);
  EXPECT_EQ(comm.stats().broadcast.calls, one);
  text.assign(10000, 'x');
  broadcast_object(comm, text);
  EXPECT_EQ(comm.stats().broadcast.calls, 3 * one);
}

}  // namespace
}  // namespace tp
