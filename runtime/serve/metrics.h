// The server's metrics, in the text format of Prometheus. The names are vLLM's, so that its dashboards work
// after a single replacement.
#pragma once

#include "runtime/access/request_log.h"
#include "runtime/serve/histogram.h"
#include "runtime/serve/rate_meter.h"
#include "tp/leader_status.h"
#include "tp/rank_report.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tp {

// Thread-safe.
class Metrics {
 public:
  Metrics();

  void count_prompt(std::size_t tokens);
  void count_token(bool is_first, double seconds);  // since the call's arrival or the previous token
  void count_end(const LoggedRequest& call);        // a call that has ended
  void count_refusal(int status);

  // Rank 0's knowledge of all ranks, from the latest report.
  void set_reports(std::vector<RankReport> reports);
  std::vector<RankReport> reports() const;

  std::uint64_t generated_tokens() const;
  std::uint64_t prompt_tokens() const;
  std::uint64_t ended() const;
  // Tokens per second, over the last few seconds.
  double prompt_rate() const;
  double generation_rate() const;

  std::string text(const std::string& model, const LeaderStatus& status, bool is_ready) const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t generated_tokens_ = 0;
  std::map<std::string, std::uint64_t> ended_;
  std::map<int, std::uint64_t> refused_;
  struct UserCounts {
    std::uint64_t requests = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t generated_tokens = 0;
  };
  std::map<std::string, UserCounts> users_;  // by the name of their key
  Histogram first_token_;
  Histogram between_tokens_;
  Histogram total_;
  Histogram queued_;
  Histogram prompt_lengths_;
  Histogram answer_lengths_;
  RateMeter prompt_rate_;
  RateMeter generation_rate_;
  std::vector<RankReport> reports_;
};

}  // namespace tp
