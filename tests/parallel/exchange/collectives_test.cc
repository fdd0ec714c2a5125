#include "parallel/exchange/collectives.h"

#include "tests/error_of.h"
#include "tests/mpi_test.h"
#include "tests/reference/random.h"
#include "tp/error.h"
#include "tp/mpi.h"

#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Returns the addend of a rank. Every rank can compute every rank's addend.
std::vector<float> addend_of(std::size_t rank, std::size_t size) {
  reference::Random random(1000 + rank);
  return random.numbers(size);
}

TEST(AllReduce, IsTheSumOfAllRanksAddends) {
  Communicator& comm = test::world();
  for (const std::size_t rows : {1U, 3U, 200U}) {
    constexpr std::size_t kColumns = 37;
    std::vector<float> own = addend_of(comm.rank(), rows * kColumns);
    const TensorView<float> sum = all_reduce(comm, PartialSum(TensorView<float>(own.data(), rows, kColumns)));
    EXPECT_EQ(sum.data(), own.data());  // in place
    std::vector<double> expected(own.size(), 0.0);
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      const std::vector<float> other = addend_of(rank, own.size());
      for (std::size_t i = 0; i < own.size(); ++i) expected[i] += other[i];
    }
    // Three float32 additions of numbers below 4.
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(own[i], expected[i], 1e-6) << i;
  }
}

// Ranks that differ in the last bit would diverge, so the residual stream must be equal everywhere.
TEST(AllReduce, GivesEveryRankTheSameBits) {
  Communicator& comm = test::world();
  for (const std::size_t size : {1U, 7U, 1000U, 70000U}) {
    std::vector<float> own = addend_of(comm.rank(), size);
    all_reduce(comm, PartialSum(TensorView<float>(own.data(), 1, size)));
    std::vector<float> of_rank_0 = own;
    broadcast_bytes(comm, std::as_writable_bytes(std::span(of_rank_0)));
    EXPECT_EQ(std::memcmp(own.data(), of_rank_0.data(), size * sizeof(float)), 0) << size;
  }
}

// Covers sizes of one piece, of several, and sizes that threads share.
TEST(AddAllReduced, AddsWhatAllReduceGivesBitForBit) {
  Communicator& comm = test::world();
  for (const std::size_t rows : {0U, 1U, 5U, 300U, 9000U}) {
    constexpr std::size_t kColumns = 37;
    const std::vector<float> own = addend_of(comm.rank(), rows * kColumns);
    const std::vector<float> before = addend_of(99, rows * kColumns);
    std::vector<float> sum = own;
    all_reduce(comm, PartialSum(TensorView<float>(sum.data(), rows, kColumns)));
    std::vector<float> expected = before;
    for (std::size_t i = 0; i < sum.size(); ++i) expected[i] += sum[i];

    std::vector<float> addend = own;
    std::vector<float> x = before;
    add_all_reduced(comm, PartialSum(TensorView<float>(addend.data(), rows, kColumns)),
                    TensorView<float>(x.data(), rows, kColumns));
    EXPECT_EQ(x, expected) << rows;
  }
}

TEST(AllReduce, ReturnsNothingForEmptyTensors) {
  Communicator& comm = test::world();
  EXPECT_TRUE(all_reduce(comm, PartialSum(TensorView<float>(nullptr, 0, 16))).empty());
  EXPECT_TRUE(all_reduce(comm, PartialSum(TensorView<float>(nullptr, 3, 0))).empty());
}

TEST(AllReduce, IsCounted) {
  Communicator& comm = test::world();
  std::vector<float> memory(60, 1.0F);
  const TensorView<float> view(memory.data(), 4, 15);
  std::vector<float> x(60);
  for (int i = 0; i < 2; ++i) all_reduce(comm, PartialSum(view));
  add_all_reduced(comm, PartialSum(view), TensorView<float>(x.data(), 4, 15));
  EXPECT_EQ(comm.stats().all_reduce.calls, 3U);
  EXPECT_EQ(comm.stats().all_reduce.bytes, 3U * 60 * sizeof(float));
  EXPECT_GT(comm.stats().all_reduce.seconds, 0.0);
  EXPECT_EQ(comm.stats().all_reduce_seconds.size(), 3U);
  EXPECT_EQ(comm.stats().gather.calls, 0U);
  EXPECT_EQ(comm.stats().broadcast.calls, 0U);
}

TEST(AllReduce, CountsSumsOfDoublesThatMayBeInexact) {
  Communicator& comm = test::world();
  std::vector<double> addend(100, 1000.0);
  std::vector<float> sum(100);
  const TensorView<double> view(addend.data(), 4, 25);
  all_reduce(comm, PartialSum(view), TensorView<float>(sum.data(), 4, 25));
  EXPECT_EQ(sum, std::vector<float>(100, 1000.0F * static_cast<float>(comm.size())));
  EXPECT_EQ(comm.stats().inexact_sums, 0U);
  addend[77] = -5e6;
  add_all_reduced(comm, PartialSum(view), TensorView<float>(sum.data(), 4, 25));
  EXPECT_EQ(comm.stats().inexact_sums, 1U);
  // A larger stated range makes larger sums exact.
  all_reduce(comm, PartialSum(view, 1e9), TensorView<float>(sum.data(), 4, 25));
  EXPECT_EQ(comm.stats().inexact_sums, 1U);
  all_reduce(comm, PartialSum(view, 1e6), TensorView<float>(sum.data(), 4, 25));
  EXPECT_EQ(comm.stats().inexact_sums, 2U);
}

TEST(AllReduce, RefusesATensorWithGapsBetweenItsRows) {
  Communicator& comm = test::world();
  std::vector<float> memory(30);
  EXPECT_EQ(test::error_of<CommError>(
                [&] { all_reduce(comm, PartialSum(TensorView<float>(memory.data(), 3, 8, 10))); }),
            "all_reduce needs a contiguous tensor, found rows 10 apart with 8 columns");
}

void expect_gathered(Communicator& comm, const std::vector<Range>& shards, std::size_t rows) {
  const std::size_t columns = shards.back().end;
  const auto value = [](std::size_t row, std::size_t column) {
    return static_cast<float>(row * 1000 + column);
  };
  const Range own = shards[comm.rank()];
  std::vector<float> memory(rows * (own.size() + 2), -1.0F);
  const TensorView<float> local(memory.data(), rows, own.size(), own.size() + 2);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t c = 0; c < own.size(); ++c) local(row, c) = value(row, own.begin + c);
  }
  std::vector<float> out(comm.is_root() ? rows * columns : 0, -2.0F);
  gather_columns(comm, local, shards,
                 comm.is_root() ? TensorView<float>(out.data(), rows, columns) : TensorView<float>());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], value(i / columns, i % columns));
}

TEST(GatherColumns, PutsUnevenShardsSideBySide) {
  Communicator& comm = test::world();
  for (const std::size_t columns : {4U, 5U, 17U, 300U}) {
    std::vector<Range> shards;
    for (std::size_t rank = 0; rank < comm.size(); ++rank)
      shards.push_back(split_evenly(columns, {rank, comm.size()}));
    for (const std::size_t rows : {0U, 1U, 5U}) expect_gathered(comm, shards, rows);
  }
}

TEST(GatherColumns, TakesEmptyShards) {
  Communicator& comm = test::world();
  for (std::size_t owner = 0; owner < comm.size(); ++owner) {
    std::vector<Range> shards;
    for (std::size_t rank = 0; rank < comm.size(); ++rank)
      shards.push_back(rank < owner ? Range{0, 0} : rank == owner ? Range{0, 6} : Range{6, 6});
    expect_gathered(comm, shards, 3);
  }
}

TEST(GatherBytes, GivesRankZeroEveryRanksValueInRankOrder) {
  Communicator& comm = test::world();
  struct Value {
    std::size_t rank;
    double half;
  };
  const std::vector<Value> all =
      gather_values(comm, Value{comm.rank(), static_cast<double>(comm.rank()) / 2});
  ASSERT_EQ(all.size(), comm.is_root() ? comm.size() : 0);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_EQ(all[rank].rank, rank);
    EXPECT_EQ(all[rank].half, static_cast<double>(rank) / 2);
  }
  EXPECT_EQ(comm.stats().gather.calls, 1U);
  EXPECT_EQ(comm.stats().gather.bytes, sizeof(Value));
}

TEST(GatherBytes, SendsNothingForEmptyBytes) {
  Communicator& comm = test::world();
  gather_bytes(comm, {}, {});
  EXPECT_EQ(comm.stats().gather.bytes, 0U);
}

TEST(ExchangeMax, IsTheGreatestOfEveryValueOnEveryRank) {
  Communicator& comm = test::world();
  const auto value_of = [](std::size_t rank, std::size_t i) {
    return static_cast<float>((rank * 7 + i * 5) % 11) - 20.0F;
  };
  std::vector<float> values;
  for (std::size_t i = 0; i < 50; ++i) values.push_back(value_of(comm.rank(), i));
  exchange_max(comm, values);
  for (std::size_t i = 0; i < 50; ++i) {
    float expected = value_of(0, i);
    for (std::size_t rank = 1; rank < comm.size(); ++rank) expected = std::max(expected, value_of(rank, i));
    EXPECT_EQ(values[i], expected);
  }
}

TEST(ExchangeSum, IsTheSumOfEveryValueOnEveryRank) {
  Communicator& comm = test::world();
  for (const std::size_t size : {0U, 1U, 3U, 2048U}) {
    std::vector<double> values;
    for (std::size_t i = 0; i < size; ++i) values.push_back(static_cast<double>((comm.rank() + 1) * (i + 1)));
    exchange_sum(comm, values);
    const auto ranks = static_cast<double>(comm.size() * (comm.size() + 1) / 2);
    for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(values[i], ranks * static_cast<double>(i + 1));
  }
}

TEST(ExchangeValues, GivesEveryRankEveryRanksValuesInRankOrder) {
  Communicator& comm = test::world();
  const CommCounter before = comm.stats().exchange;
  const std::vector<std::uint32_t> own = {static_cast<std::uint32_t>(comm.rank()), 99};
  const std::vector<std::uint32_t> all = exchange_values(comm, std::span<const std::uint32_t>(own));
  ASSERT_EQ(all.size(), 2 * comm.size());
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    EXPECT_EQ(all[2 * rank], rank);
    EXPECT_EQ(all[2 * rank + 1], 99U);
  }
  EXPECT_EQ(comm.stats().exchange.calls, before.calls + 1);
  EXPECT_EQ(comm.stats().exchange.bytes, before.bytes + 2 * sizeof(std::uint32_t));
  EXPECT_TRUE(exchange_values(comm, std::span<const std::uint32_t>()).empty());
}

TEST(MaxOverRanks, IsTheLargestValueOnEveryRank) {
  Communicator& comm = test::world();
  for (std::size_t winner = 0; winner < comm.size(); ++winner) {
    const std::int64_t value = comm.rank() == winner ? (std::int64_t{1} << 40) : -5;
    EXPECT_EQ(max_over_ranks(comm, value), std::int64_t{1} << 40);
  }
  EXPECT_EQ(max_over_ranks(comm, -7), -7);
}

TEST(Communicator, KnowsItsRankAndTheRanksOfItsHost) {
  Communicator comm(MPI_COMM_WORLD);
  EXPECT_LT(comm.rank(), comm.size());
  EXPECT_EQ(comm.is_root(), comm.rank() == 0);
  EXPECT_EQ(comm.local_size(), comm.size());  // the tests run on one host
  EXPECT_EQ(comm.local_rank(), comm.rank());
}

}  // namespace
}  // namespace tp
