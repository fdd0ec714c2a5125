#include "parallel/exchange/fail_together.h"

#include "parallel/exchange/agreement.h"
#include "parallel/exchange/collectives.h"
#include "tests/error_of.h"
#include "tests/mpi_test.h"
#include "tp/internal/require.h"

#include <new>

#include <gtest/gtest.h>

namespace tp {
namespace {

struct Outcome {
  std::string text = "no error";
  std::size_t rank = 999;
};

Outcome outcome_of(Communicator& comm, const std::function<void()>& work) {
  try {
    fail_together(comm, work);
  } catch (const AgreedError& error) {
    return {error.what(), error.rank()};
  }
  return {};
}

TEST(FailTogether, LetsSuccessPass) {
  Communicator& comm = test::world();
  int done = 0;
  EXPECT_EQ(outcome_of(comm, [&] { ++done; }).text, "no error");
  EXPECT_EQ(done, 1);
}

TEST(FailTogether, ThrowsOneRanksErrorOnEveryRank) {
  Communicator& comm = test::world();
  for (std::size_t failing = 0; failing < comm.size(); ++failing) {
    const Outcome outcome = outcome_of(comm, [&] {
      if (comm.rank() == failing) throw_error<CheckpointError>("rank {} cannot read its file", failing);
    });
    EXPECT_EQ(outcome.text, fmt::format("rank {} cannot read its file", failing));
    EXPECT_EQ(outcome.rank, failing);
  }
}

TEST(FailTogether, ReportsTheLowestRankIfSeveralFail) {
  Communicator& comm = test::world();
  for (std::size_t first = 0; first < comm.size(); ++first) {
    const Outcome outcome = outcome_of(comm, [&] {
      // Texts of different lengths.
      if (comm.rank() >= first) throw Error(std::string(comm.rank() + 1, 'x'));
    });
    EXPECT_EQ(outcome.text, std::string(first + 1, 'x'));
    EXPECT_EQ(outcome.rank, first);
  }
}

TEST(FailTogether, GivesErrorsWithoutATextOne) {
  Communicator& comm = test::world();
  EXPECT_EQ(outcome_of(comm, [] { throw Error(""); }).text, "unknown error");
  EXPECT_EQ(
      outcome_of(comm, [] { throw std::bad_alloc(); }).text,
      "out of memory; use more ranks or hosts, use a smaller cache (`cache_tokens`), or raise the limit "
      "(ulimit -v)");
}

TEST(FailTogether, PassesAnErrorOfAllRanks) {
  Communicator& comm = test::world();
  const Outcome outcome = outcome_of(comm, [&] {
    fail_together(comm, [&] {
      if (comm.rank() + 1 == comm.size()) throw Error("inner");
    });
  });
  EXPECT_EQ(outcome.text, "inner");
  EXPECT_EQ(outcome.rank, comm.size() - 1);
}

TEST(FailTogether, LeavesTheRanksReadyForMore) {
  Communicator& comm = test::world();
  outcome_of(comm, [&] {
    if (comm.rank() == 0) throw Error("rank 0");
  });
  EXPECT_EQ(max_over_ranks(comm, static_cast<std::int64_t>(comm.rank())),
            static_cast<std::int64_t>(comm.size() - 1));
}

TEST(RequireAgreement, PassesIfAllRanksHoldTheSame) {
  Communicator& comm = test::world();
  EXPECT_NO_THROW(require_agreement(comm, 42, "the answer", "ask again"));
}

TEST(RequireAgreement, NamesTheFirstRankThatDiffersOnEveryRank) {
  Communicator& comm = test::world();
  for (std::size_t odd = 1; odd < comm.size(); ++odd) {
    EXPECT_EQ(test::error_of<CommError>([&] {
                require_agreement(comm, comm.rank() >= odd ? 0xbeef : 0xcafe, "the checkpoint in /models/x",
                                  "copy the same files to every host");
              }),
              fmt::format("the ranks disagree about the checkpoint in /models/x: rank 0 has "
                          "000000000000cafe, rank {} has 000000000000beef; copy the same files to every host",
                          odd));
  }
}

}  // namespace
}  // namespace tp
