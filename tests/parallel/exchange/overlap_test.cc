#include "parallel/exchange/overlap.h"

#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/fiber.h"
#include "tests/mpi_test.h"
#include "tp/error.h"

#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Sets a text when it is destroyed.
struct Witness {
  std::string& seen;
  ~Witness() { seen += "destroyed "; }
};

TEST(Fiber, ContinuesAfterItsPause) {
  std::string order;
  Fiber* self = nullptr;
  Fiber fiber([&] {
    order += "a";
    self->pause();
    order += "c";
    self->pause();
    order += "e";
  });
  self = &fiber;
  fiber.resume();
  order += "b";
  fiber.resume();
  order += "d";
  EXPECT_FALSE(fiber.ended());
  fiber.resume();
  EXPECT_TRUE(fiber.ended());
  EXPECT_EQ(order, "abcde");
}

TEST(Fiber, PassesOnItsWorksException) {
  Fiber* self = nullptr;
  std::string seen;
  Fiber fiber([&] {
    const Witness witness{seen};
    self->pause();
    throw std::runtime_error("no more");
  });
  self = &fiber;
  fiber.resume();
  EXPECT_THROW(fiber.resume(), std::runtime_error);
  EXPECT_TRUE(fiber.ended());
  EXPECT_EQ(seen, "destroyed ");
}

TEST(Fiber, DestroysTheObjectsOfWorkThatIsAbandonedAlsoDuringUnwinding) {
  std::string seen;
  try {
    Fiber* self = nullptr;
    Fiber fiber([&] {
      const Witness witness{seen};
      self->pause();
      seen += "went on ";
    });
    self = &fiber;
    fiber.resume();
    throw std::runtime_error("the other one failed");
  } catch (const std::runtime_error&) {
    seen += "caught";
  }
  EXPECT_EQ(seen, "destroyed caught");
}

TEST(CommunicationThread, PassesOnAnErrorAndExecutesNothingAfterIt) {
  CommunicationThread thread;
  std::string order;
  {
    CommunicationThread::Pending first(thread, [&] { order += "a"; });
    CommunicationThread::Pending second(thread, [&] {
      order += "b";
      throw CommError("waited 3 s");
    });
    CommunicationThread::Pending third(thread, [&] { order += "c"; });
    EXPECT_NO_THROW(first.wait());
    EXPECT_THROW(second.wait(), CommError);
    EXPECT_THROW(third.wait(), CommError);
  }
  EXPECT_THROW(thread.wait_until_idle(), CommError);
  EXPECT_EQ(order, "ab");
}

// Returns this rank's addend of the sum `number`.
std::vector<float> addend(std::size_t rank, std::size_t number, std::size_t size) {
  std::vector<float> values;
  for (std::size_t i = 0; i < size; ++i)
    values.push_back(static_cast<float>((rank + 1) * (number + 3) + i % 7));
  return values;
}

std::vector<float> expected_sum(std::size_t ranks, std::size_t number, std::size_t size) {
  std::vector<float> sum(size);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::vector<float> one = addend(rank, number, size);
    for (std::size_t i = 0; i < size; ++i) sum[i] += one[i];
  }
  return sum;
}

// Computes a sum and returns whether it is correct.
bool sums_rightly(Communicator& comm, std::size_t number, std::size_t size) {
  std::vector<float> values = addend(comm.rank(), number, size);
  all_reduce(comm, PartialSum(TensorView<float>(values.data(), 1, size)));
  return values == expected_sum(comm.size(), number, size);
}

TEST(Overlap, GivesTheSumsOfBothOfAnySize) {
  Communicator& comm = test::world();
  for (const std::size_t size : {1U, 1000U, 300'000U}) {
    bool all_right = true;
    const auto sums = [&](std::size_t first) {
      for (std::size_t i = 0; i < 5; ++i) all_right &= sums_rightly(comm, first + 2 * i, size);
    };
    overlap(
        comm, [&] { sums(0); }, [&] { sums(1); });
    EXPECT_TRUE(all_right) << size;
    EXPECT_FALSE(comm.overlaps());
  }
  EXPECT_EQ(comm.stats().all_reduce.calls, 30U);
  EXPECT_EQ(comm.stats().all_reduce_seconds.size(), 30U);
}

// The first computation is always ahead: its values between two sums are available when the second gets
// there.
TEST(Overlap, TakesTurnsAtEverySum) {
  Communicator& comm = test::world();
  std::string order;
  const auto work = [&](char name) {
    for (int i = 0; i < 3; ++i) {
      order += name;
      sums_rightly(comm, 0, 10);
    }
    order += name;
  };
  overlap(
      comm, [&] { work('a'); }, [&] { work('b'); });
  EXPECT_EQ(order, "abababab");
}

TEST(Overlap, MayHaveMoreSumsOnEitherSide) {
  Communicator& comm = test::world();
  for (const auto& [first, second] : {std::pair(0, 3), std::pair(4, 1), std::pair(2, 0)}) {
    bool all_right = true;
    const auto work = [&](int sums) {
      for (int i = 0; i < sums; ++i) all_right &= sums_rightly(comm, static_cast<std::size_t>(i), 5000);
    };
    overlap(
        comm, [&, count = first] { work(count); }, [&, count = second] { work(count); });
    EXPECT_TRUE(all_right);
  }
}

TEST(Overlap, LetsOtherCollectivesWaitForTheSums) {
  Communicator& comm = test::world();
  std::vector<float> maxima;
  bool all_right = true;
  const auto work = [&](float value) {
    for (std::size_t i = 0; i < 4; ++i) {
      all_right &= sums_rightly(comm, i, 200'000);
      std::vector<float> own = {value + static_cast<float>(comm.rank())};
      exchange_max(comm, own);
      maxima.push_back(own.front());
    }
  };
  overlap(
      comm, [&] { work(10.0F); }, [&] { work(20.0F); });
  EXPECT_TRUE(all_right);
  const auto last = static_cast<float>(comm.size() - 1);
  EXPECT_EQ(maxima, (std::vector<float>{10 + last, 20 + last, 10 + last, 20 + last, 10 + last, 20 + last,
                                        10 + last, 20 + last}));
}

TEST(Overlap, EndsBothWhenEitherFailsAndLeavesTheRanksTogether) {
  Communicator& comm = test::world();
  for (const bool first_fails : {true, false}) {
    std::string seen;
    const auto work = [&](bool fails) {
      const Witness witness{seen};
      std::vector<float> values(100'000, 1.0F);
      for (int i = 0; i < 3; ++i) {
        all_reduce(comm, PartialSum(TensorView<float>(values.data(), 1, values.size())));
        if (fails && i == 1) throw std::runtime_error("not enough memory");
      }
    };
    EXPECT_THROW(overlap(
                     comm, [&] { work(first_fails); }, [&] { work(!first_fails); }),
                 std::runtime_error);
    EXPECT_EQ(seen, "destroyed destroyed ");
    EXPECT_FALSE(comm.overlaps());
    EXPECT_TRUE(sums_rightly(comm, 7, 1000)) << "nothing is left on its way";
  }
}

// The communication thread is blocked until the second computation runs.
TEST(Overlap, RecordsASumAlongsideConcurrentComputation) {
  Communicator& comm = test::world();
  comm.tracer().start();
  std::promise<void> computes;
  const auto first = [&] {
    const CommunicationThread::Pending gate(comm.overlap().thread(), [&] { computes.get_future().wait(); });
    EXPECT_TRUE(sums_rightly(comm, 0, 300'000));
  };
  const auto second = [&] {
    {
      const TraceSpan span(comm, Activity::attention, 0);
      computes.set_value();
      comm.overlap().thread().wait_until_idle();
    }
    EXPECT_TRUE(sums_rightly(comm, 1, 10));
  };
  overlap(comm, first, second);
  std::vector<TraceEvent> sums;
  std::vector<TraceEvent> computed;
  std::vector<TraceEvent> waits;
  for (const TraceEvent& event : comm.tracer().trace().events) {
    if (event.activity == Activity::overlapped_all_reduce) sums.push_back(event);
    if (event.activity == Activity::attention) computed.push_back(event);
    if (event.activity == Activity::all_reduce) waits.push_back(event);
  }
  ASSERT_EQ(sums.size(), 2U);
  ASSERT_EQ(computed.size(), 1U);
  EXPECT_EQ(sums[0].detail, 300'000 * sizeof(float));
  EXPECT_GE(sums[0].begin, computed[0].begin);
  EXPECT_LE(sums[0].end, computed[0].end);
  // A hidden all-reduce causes no span of its own on the rank.
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_GE(waits[0].begin, computed[0].end);
}

// A trace shows one row per rank, in which spans must follow or contain each other.
TEST(Overlap, InterruptsSpansWhileTheOtherComputationGoesOn) {
  Communicator& comm = test::world();
  comm.tracer().start();
  const auto compute = [&](std::uint64_t detail) {
    const TraceSpan span(comm, Activity::attention, detail);
    EXPECT_TRUE(sums_rightly(comm, detail, 10));
  };
  {
    const TraceSpan step(comm, Activity::step, 0);
    overlap(
        comm, [&] { compute(1); }, [&] { compute(2); });
  }
  EXPECT_EQ(comm.tracer().innermost(), nullptr);
  std::vector<TraceEvent> steps;
  std::vector<TraceEvent> parts;
  for (const TraceEvent& event : comm.tracer().trace().events) {
    if (event.activity == Activity::step) steps.push_back(event);
    if (event.activity == Activity::attention) parts.push_back(event);
  }
  ASSERT_EQ(steps.size(), 1U);
  ASSERT_EQ(parts.size(), 4U);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].detail, 1 + i % 2) << i;
    EXPECT_LE(parts[i].begin, parts[i].end);
    EXPECT_GE(parts[i].begin, i == 0 ? steps[0].begin : parts[i - 1].end);
  }
  EXPECT_LE(parts.back().end, steps[0].end);
}

}  // namespace
}  // namespace tp
