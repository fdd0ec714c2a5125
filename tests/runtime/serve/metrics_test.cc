#include "runtime/serve/metrics.h"

#include "runtime/serve/histogram.h"
#include "runtime/serve/rate_meter.h"
#include "runtime/serve/worker_pool.h"
#include "tests/expect_contains.h"

#include <atomic>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using namespace std::chrono_literals;

TEST(Histogram, CountsValuesUpToEachBound) {
  Histogram histogram({1.0, 2.0});
  for (const double value : {0.5, 1.0, 1.5, 9.0}) histogram.add(value);
  EXPECT_EQ(histogram.text("h", "Help.", "m=\"x\""),
            "# HELP h Help.\n# TYPE h histogram\nh_bucket{m=\"x\",le=\"1\"} 2\nh_bucket{m=\"x\",le=\"2\"} 3\n"
            "h_bucket{m=\"x\",le=\"+Inf\"} 4\nh_sum{m=\"x\"} 12\nh_count{m=\"x\"} 4\n");
}

TEST(RateMeter, ForgetsOldCounts) {
  const RateMeter::Clock::time_point start{100s};
  RateMeter meter;
  meter.add(6, start);
  EXPECT_EQ(meter.rate(start), 0.0) << "this second is not over";
  EXPECT_EQ(meter.rate(start + 1s), 2.0);
  EXPECT_EQ(meter.rate(start + 3s), 2.0);
  EXPECT_EQ(meter.rate(start + 4s), 0.0);
  meter.add(3, start + 60s);
  EXPECT_EQ(meter.rate(start + 61s), 1.0);
}

TEST(Metrics, CountsRequestsByTheirEnd) {
  Metrics metrics;
  metrics.count_prompt(10);
  metrics.count_token(true, 0.03);
  metrics.count_token(false, 0.01);
  metrics.count_end({.status = 200,
                     .prompt_tokens = 10,
                     .generated_tokens = 2,
                     .queued = 0.001,
                     .total = 0.04,
                     .reason = "stop"});
  metrics.count_end({.status = 499, .reason = "abort"});
  metrics.count_end({.status = 429, .reason = "the queue is full"});
  metrics.count_end({.status = 500, .reason = "server_error"});
  const std::string text = metrics.text("a \"model\"", {.used_blocks = 1, .free_blocks = 3}, true);
  for (const char* line :
       {"tpinfer:prompt_tokens_total{model_name=\"a \\\"model\\\"\"} 10\n",
        "tpinfer:generation_tokens_total{model_name=\"a \\\"model\\\"\"} 2\n",
        "finished_reason=\"stop\"} 1\n", "finished_reason=\"abort\"} 1\n", "finished_reason=\"error\"} 1\n",
        "status=\"429\"} 1\n", "tpinfer:kv_cache_usage_perc{model_name=\"a \\\"model\\\"\"} 0.25\n",
        "tpinfer:time_to_first_token_seconds_count{model_name=\"a \\\"model\\\"\"} 1\n",
        "tpinfer:inter_token_latency_seconds_count{",
        "tpinfer:e2e_request_latency_seconds_count{model_name=\"a \\\"model\\\"\"} 1\n"})
    EXPECT_CONTAINS(text, line);
}

TEST(Metrics, CountRequestsByTheNamesOfKeys) {
  Metrics metrics;
  EXPECT_EQ(metrics.text("m", {}, true).find("user_"), std::string::npos) << "without keys";
  for (const char* user : {"anna", "ben", "anna"})
    metrics.count_end(
        {.user = user, .status = 200, .prompt_tokens = 10, .generated_tokens = 2, .reason = "stop"});
  metrics.count_end({.user = "ben", .status = 499, .prompt_tokens = 10, .generated_tokens = 1});
  metrics.count_end({.user = "carla", .status = 400});
  const std::string text = metrics.text("m", {}, true);
  for (const char* line : {"tpinfer:user_requests_total{model_name=\"m\",user=\"anna\"} 2\n",
                           "tpinfer:user_prompt_tokens_total{model_name=\"m\",user=\"anna\"} 20\n",
                           "tpinfer:user_requests_total{model_name=\"m\",user=\"ben\"} 2\n",
                           "tpinfer:user_generation_tokens_total{model_name=\"m\",user=\"ben\"} 3\n"})
    EXPECT_CONTAINS(text, line);
  EXPECT_EQ(text.find("carla"), std::string::npos) << "refusals cost nothing";
}

TEST(Metrics, CountSnapshotsIfAModelHasStates) {
  const std::string text = Metrics().text("m", {.states = 64, .snapshots = 5, .snapshot_hits = 7}, true);
  for (const char* line :
       {"tpinfer:state_slots{model_name=\"m\"} 64\n", "tpinfer:state_snapshots{model_name=\"m\"} 5\n",
        "tpinfer:state_snapshot_hits_total{model_name=\"m\"} 7\n"})
    EXPECT_CONTAINS(text, line);
  EXPECT_EQ(Metrics().text("m", {}, true).find("state_"), std::string::npos);
}

TEST(Metrics, CountDraftTokensByTheirPlace) {
  const Metrics metrics;
  LeaderStatus status;
  EXPECT_EQ(metrics.text("m", status, true).find("spec_decode"), std::string::npos) << "there are none";
  status.speculation.drafts = 3;
  status.speculation.drafted = {3, 2};
  status.speculation.accepted = {2, 1};
  const std::string text = metrics.text("m", status, true);
  for (const char* line :
       {"tpinfer:spec_decode_num_drafts_total{model_name=\"m\"} 3\n",
        "tpinfer:spec_decode_num_draft_tokens_total{model_name=\"m\"} 5\n",
        "tpinfer:spec_decode_num_accepted_tokens_total{model_name=\"m\"} 3\n",
        "tpinfer:spec_decode_num_draft_tokens_per_pos_total{model_name=\"m\",position=\"1\"} 2\n",
        "tpinfer:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\",position=\"0\"} 2\n"})
    EXPECT_CONTAINS(text, line);
  EXPECT_EQ(text.find("position=\"2\""), std::string::npos);
}

TEST(TaskQueue, KeepsTheOrderAndRunsOneAtATime) {
  std::vector<int> order;
  std::atomic<int> running = 0;
  {
    WorkerPool pool(4);
    TaskQueue queue(pool);
    for (int i = 0; i < 2000; ++i) {
      queue.post([&, i] {
        EXPECT_EQ(++running, 1);
        order.push_back(i);
        --running;
      });
    }
  }
  ASSERT_EQ(order.size(), 2000U);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace tp::test
