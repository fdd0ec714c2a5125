// If memory runs out for one request, only that request fails. Allocations within a step cannot fail.
#include "runtime/cache/hidden_states.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

namespace {

// Allocations of exactly this many bytes fail.
std::atomic<std::size_t> scarce = 0;
std::atomic<bool> all_is_taken = false;

void* allocate(std::size_t size) {
  void* const block = size == scarce || all_is_taken ? nullptr : std::malloc(std::max<std::size_t>(size, 1));
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
// Without these two operators, std::stable_sort would allocate with an allocator that doesn't match operator
// delete.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace tp {
namespace {

using test::Continuations;
using test::greedy_request;
using test::run_all;

constexpr std::size_t kLongPrompt =
    151;  // no other allocation of these tests has the size of this many tokens
constexpr const char* kOutOfMemory =
    "cannot continue the prompt: out of memory; send fewer or shorter requests at once, or use more hosts";

// Checks that only the samples of a long prompt fail while allocations of `bytes` bytes fail.
void expect_only_the_long_one_fails(std::size_t bytes) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const EngineOptions options{.model = fixture.folder, .prefill_chunk = 32, .block_size = 4};
  test::run_engine(test::world(), options, [&](Engine& engine) {
    const std::uint64_t before = engine.submit(greedy_request(fixture.prompt, 16));
    Request request = greedy_request(std::vector<TokenId>(kLongPrompt, 1), 8);
    request.n = 3;
    const std::uint64_t large = engine.submit(request);
    const std::uint64_t behind = engine.submit(greedy_request(fixture.prompt, 16));
    scarce = bytes;
    Continuations all = run_all(engine);
    scarce = 0;
    EXPECT_EQ((all[{before, 0}].tokens), fixture.greedy);
    EXPECT_EQ((all[{behind, 0}].tokens), fixture.greedy);
    for (int sample = 0; sample < 3; ++sample) {
      EXPECT_EQ((all[{large, sample}].reason), FinishReason::error) << sample;
      EXPECT_EQ((all[{large, sample}].error), kOutOfMemory) << sample;
    }
    // After the failure, the same request succeeds.
    const std::uint64_t again = engine.submit(request);
    all = run_all(engine);
    for (int sample = 0; sample < 3; ++sample) EXPECT_EQ((all[{again, sample}].tokens.size()), 8U) << sample;
  });
}

TEST(Exhaustion, AtTheBeginningOfASampleEndsOnlyThisSample) {
  expect_only_the_long_one_fails(kLongPrompt * sizeof(TokenId));
}

// The vector of tokens doubles when it grows, and this allocation fails.
TEST(Exhaustion, DuringASamplesGrowthEndsOnlyThisSample) {
  expect_only_the_long_one_fails(2 * kLongPrompt * sizeof(TokenId));
}

// A rank keeps hidden states in the middle of a step. An exception on one rank would end the job there.
TEST(Exhaustion, CannotHappenForStatesThatAStepKeeps) {
  constexpr std::size_t kRows = 37;
  HiddenStates states(kRows, 1);
  const auto value_of = [](SequenceId sequence, std::size_t position) {
    return static_cast<float>(1000 * sequence + position);
  };
  constexpr std::size_t kKept = 1000;
  constexpr SequenceId kSequences = 3;
  all_is_taken = true;
  for (std::size_t i = 0; i < kKept; ++i)
    states.keep(i % kSequences, i, std::array{value_of(i % kSequences, i)});
  all_is_taken = false;
  for (std::size_t i = 0; i < kKept; ++i) {
    for (SequenceId sequence = 0; sequence < kSequences; ++sequence) {
      const float* const state = states.find(sequence, i);
      const bool is_there = i + kRows >= kKept && sequence == i % kSequences;
      ASSERT_EQ(state != nullptr, is_there) << sequence << " " << i;
      if (is_there) {
        EXPECT_EQ(*state, value_of(sequence, i));
      }
    }
  }
}

}  // namespace
}  // namespace tp
