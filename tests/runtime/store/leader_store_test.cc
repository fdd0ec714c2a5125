// A leader with a store whose ranks are slow, lose files, and get cancellations: every text is the one that
// the model would generate if the request ran alone, and every request ends once.
#include "tests/reference/random.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tests/runtime/store/fake_store.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;
using test::continuation;
using test::LeaderRun;

constexpr std::size_t kRanks = 2;

struct StoreCase {
  std::size_t block_size = 2;
  std::size_t run = 4;  // blocks
  std::size_t cache_tokens = 200;
  CacheWindows windows = {std::nullopt};
  bool has_states = false;
};

// A leader with its worker and the stores of its ranks.
class StoringLeader {
 public:
  StoringLeader(const StoreCase& c, LeaderOptions limits, test::FakeFiles& files, Random& random)
      : run_(shape_of(c, limits).blocks_for(c.cache_tokens, limits.engine.max_sequences), c.block_size,
             limits, c.windows, shape_of(c, limits).states),
        stores_(run_.worker, files, random, c.block_size, c.windows.size(), kRanks) {
    StoreSettings settings{
        .min_tokens = 6, .blocks_per_run = c.run, .has_widest_window = {}, .ranks = kRanks};
    const bool is_full = std::ranges::find(c.windows, CacheWindow()) != c.windows.end();
    if (!is_full) settings.widest_window = *std::ranges::max_element(c.windows);
    for (const CacheWindow& window : c.windows)
      settings.has_widest_window.push_back(window == settings.widest_window);
    run_.leader.open_store(settings);
    for (const auto& [id, file] : files.all) run_.leader.add_stored(file.header);
  }

  void step() {
    if (const auto work = run_.leader.take_store_work()) run_.leader.apply_store_reports(stores_.run(*work));
    run_.step();
  }
  void run() {
    while (run_.leader.has_work() || run_.leader.is_store_busy()) step();
  }

  LeaderRun& operator*() { return run_; }
  LeaderRun* operator->() { return &run_; }
  const test::FakeStores& stores() const { return stores_; }

 private:
  static CacheShape shape_of(const StoreCase& c, const LeaderOptions& limits) {
    return {.block_size = c.block_size,
            .chunk = limits.engine.prefill_chunk,
            .windows = c.windows,
            .states = c.has_states ? kStatesPerSequence * limits.engine.max_sequences : 0};
  }

  LeaderRun run_;
  test::FakeStores stores_;
};

std::vector<TokenId> stored_text(std::size_t size, std::size_t common = SIZE_MAX) {
  std::vector<TokenId> tokens(size);
  for (std::size_t i = 0; i < size; ++i)
    tokens[i] = static_cast<TokenId>((i * i + (i < common ? 0 : 5)) % 97);
  return tokens;
}

TEST(LeaderStore, ReadsAnEarlierLeadersBlocksWhileRequestsRun) {
  Random random(1);
  test::FakeFiles files;
  const StoreCase c;
  {
    StoringLeader leader(c, test::limits_of(16, 4), files, random);
    leader->add(stored_text(60), 5);
    leader.run();
  }
  StoringLeader leader(c, test::limits_of(16, 4), files, random);
  const RequestId other = leader->add(stored_text(5), 30);
  leader.step();
  const RequestId again = leader->add(stored_text(60), 5);
  leader.step();
  EXPECT_EQ(leader->leader.status().store.loading, 1U);
  leader.run();
  EXPECT_EQ(leader->received[again].tokens[0], continuation(stored_text(60), 5));
  EXPECT_EQ(leader->received[other].tokens[0], continuation(stored_text(5), 30));
  if (leader.stores().failed() == 0) {
    EXPECT_EQ(std::get<RequestFinished>(*leader->received[again].end).cached_tokens, 58U);
  }
}

TEST(LeaderStore, EndsACancelledRequestWhileItsPrefixIsRead) {
  Random random(2);
  test::FakeFiles files;
  const StoreCase c;
  {
    StoringLeader leader(c, test::limits_of(16, 4), files, random);
    leader->add(stored_text(60), 5);
    leader.run();
  }
  StoringLeader leader(c, test::limits_of(16, 4), files, random);
  const RequestId id = leader->add(stored_text(60), 5);
  (*leader).step();
  EXPECT_EQ(leader->leader.status().store.loading, 1U);
  leader->leader.cancel(id);
  (*leader).step();
  EXPECT_TRUE(leader->received[id].ended_with<RequestCancelled>());
  leader.run();
  EXPECT_EQ(leader->leader.status().used_blocks, 0U);
  EXPECT_EQ(leader->leader.status().store.restored_tokens, 0U);
}

struct SentRequest {
  Request request;
  bool cancelled = false;
};

Request stored_request(Random& random, std::size_t longest) {
  Request request;
  request.sampling.temperature = 0.0F;
  request.prompt = stored_text(random.integer(1, longest), random.integer(0, longest));
  request.max_tokens = static_cast<int>(random.integer(1, 12));
  if (random.integer(0, 5) == 0) request.n = 2;
  if (random.integer(0, 9) == 0) request.cache_prompt = false;
  if (random.integer(0, 3) == 0) request.cache_salt = "a";
  if (random.integer(0, 3) == 0) request.priority = static_cast<int>(random.integer(0, 2)) - 1;
  if (random.integer(0, 5) == 0 && request.prompt.size() > 1) request.score_from = 1;
  return request;
}

struct StressCounts {
  std::uint64_t restored = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t dropped = 0;
};

void stress_store(StoreCase c, std::uint64_t seed, StressCounts& counts) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  test::FakeFiles files;
  c.block_size = random.integer(1, 5);
  c.run = random.integer(1, 5);
  c.cache_tokens = random.integer(60, 160);
  for (int engine = 0; engine < 3; ++engine) {
    StoringLeader leader(c, test::limits_of(random.integer(2, 20), random.integer(1, 5)), files, random);
    std::map<RequestId, SentRequest> sent;
    std::size_t iterations = 0;
    while (sent.size() < 25 || leader->leader.has_work()) {
      ASSERT_LT(++iterations, 50'000'000U) << "it does not come to an end";
      if (sent.size() < 25 && random.integer(0, 3) == 0) {
        Request request = stored_request(random, 45);
        sent[leader->add(request)].request = request;
      }
      if (!sent.empty() && random.integer(0, 29) == 0) {
        const auto one = std::next(sent.begin(), static_cast<long>(random.integer(0, sent.size() - 1)));
        one->second.cancelled = true;
        leader->leader.cancel(one->first);
      }
      leader.step();
      if (testing::Test::HasFailure()) return;
    }
    leader.run();
    for (const auto& [id, one] : sent) {
      const LeaderRun::Received& received = leader->received[id];
      ASSERT_EQ(received.ends, 1);
      if (one.cancelled && std::holds_alternative<RequestCancelled>(*received.end)) continue;
      const auto expected =
          continuation(one.request.prompt, static_cast<std::size_t>(one.request.max_tokens));
      for (const auto& [sample, tokens] : received.tokens) ASSERT_EQ(tokens, expected);
    }
    const LeaderStatus status = leader->leader.status();
    EXPECT_EQ(status.used_blocks, 0U);
    counts.restored += status.store.restored_tokens;
    counts.preemptions += status.preemptions;
    counts.dropped += status.store.dropped_runs;
    counts.failed += leader.stores().failed();
    counts.cancelled += leader.stores().cancelled();
  }
}

TEST(LeaderStore, GivesEveryRequestItsOwnTextUnderStress) {
  const std::vector<StoreCase> cases = {{.windows = {std::nullopt}},
                                        {.windows = {std::nullopt, 7}},
                                        {.windows = {9, 9}},
                                        {.windows = {std::nullopt}, .has_states = true},
                                        {.windows = {std::nullopt, 6, 6}, .has_states = true}};
  StressCounts counts;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    const std::uint64_t before = counts.restored;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) stress_store(cases[i], 100 * i + seed, counts);
    EXPECT_GT(counts.restored, before + 500);
  }
  // The cases are small enough to cause preemptions, failures and cancellations.
  EXPECT_GT(counts.preemptions, 20U);
  EXPECT_GT(counts.failed, 20U);
  EXPECT_GT(counts.cancelled, 20U);
}

}  // namespace
}  // namespace tp
