#include "runtime/serve/metrics.h"

#include "runtime/http/http_message.h"

#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

std::vector<double> latency_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640};
}

std::vector<double> length_bounds() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
}

// Writes metrics that have one value, or one value per set of labels.
class Text {
 public:
  explicit Text(const std::string& model) : model_(fmt::format("model_name=\"{}\"", label_text(model))) {}

  void head(const char* name, const char* type, const char* help) {
    text_ += fmt::format("# HELP tpinfer:{0} {1}\n# TYPE tpinfer:{0} {2}\n", name, help, type);
  }
  template <class Value>
  void value(const char* name, Value value, const std::string& labels = "") {
    text_ += fmt::format("tpinfer:{}{{{}{}{}}} {}\n", name, model_, labels.empty() ? "" : ",", labels, value);
  }
  template <class Value>
  void gauge(const char* name, const char* help, Value number) {
    head(name, "gauge", help);
    value(name, number);
  }
  void counter(const char* name, const char* help, std::uint64_t number) {
    head(name, "counter", help);
    value(name, number);
  }
  void add(const Histogram& histogram, const char* name, const char* help) {
    text_ += histogram.text(fmt::format("tpinfer:{}", name), help, model_);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string model_;
  std::string text_;
};

double share_used(const LeaderStatus& status) {
  const std::size_t blocks = status.used_blocks + status.free_blocks;
  return blocks == 0 ? 0.0 : static_cast<double>(status.used_blocks) / static_cast<double>(blocks);
}

void add_load(Text& text, const LeaderStatus& status) {
  text.gauge("num_requests_running", "Continuations being computed.", status.running);
  text.gauge("num_requests_waiting", "Continuations waiting to be scheduled.", status.queued);
  text.gauge("kv_cache_usage_perc", "Share of the KV cache's blocks in use, 0 to 1.", share_used(status));
  text.gauge("kv_cache_blocks_used", "KV cache blocks in use.", status.used_blocks);
  text.gauge("kv_cache_blocks_free", "KV cache blocks free or holding prefixes for reuse.",
             status.free_blocks);
  text.gauge("iteration_tokens", "Tokens computed by the last step.", status.last_step_tokens);
  text.counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
               status.prefix_queries);
  text.counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", status.prefix_hits);
  if (status.states != 0) {
    text.gauge("state_slots", "States of recurrent layers that there is room for.", status.states);
    text.gauge("state_snapshots", "Of these, kept for later prompts to begin with.", status.snapshots);
    text.counter("state_snapshot_hits_total", "Continuations that began with a snapshot.",
                 status.snapshot_hits);
  }
  text.counter("num_preemptions_total", "Continuations whose cache blocks were released, to be recomputed.",
               status.preemptions);
}

// With --kv-store.
void add_store(Text& text, const StoreStatus& store) {
  if (!store.is_open) return;
  text.counter("kv_store_hits_total", "Prompts of which a part was read from disk.", store.restored_prompts);
  text.counter("kv_store_hit_tokens_total", "Prompt tokens that were read from disk, not computed.",
               store.restored_tokens);
  text.counter("kv_store_read_bytes_total", "Bytes read by all ranks.", store.read_bytes);
  text.counter("kv_store_read_seconds_total", "Seconds of all ranks spent reading.", store.read_seconds);
  text.counter("kv_store_written_bytes_total", "Bytes written by all ranks.", store.written_bytes);
  text.counter("kv_store_removed_bytes_total", "Bytes removed to limit the size of the folder.",
               store.removed_bytes);
  text.counter("kv_store_dropped_total", "Runs of blocks that left the cache before they were written.",
               store.dropped_runs);
  text.counter("kv_store_damaged_files_total", "Files that were ignored and removed.", store.damaged_files);
  text.gauge("kv_store_waiting", "Runs of blocks that are not written yet.", store.waiting_runs);
  text.gauge("kv_store_writes", "1 while prompts are written, 0 after an error.", store.writes ? 1 : 0);
}

// Draft tokens exist only with speculation.
void add_speculation(Text& text, const SpeculationCounts& counts) {
  if (counts.drafts == 0) return;
  text.counter("spec_decode_num_drafts_total", "Drafts, one for a sequence and step.", counts.drafts);
  text.counter("spec_decode_num_draft_tokens_total", "Draft tokens.", counts.drafted_tokens());
  text.counter("spec_decode_num_accepted_tokens_total", "Draft tokens that the model chose, too.",
               counts.accepted_tokens());
  struct ByPlace {
    const char* name;
    const char* help;
    const std::array<std::uint64_t, kMaxDraftTokens>& counts;
  };
  for (const ByPlace& metric : {ByPlace{"spec_decode_num_draft_tokens_per_pos_total",
                                        "Draft tokens by place in the draft.", counts.drafted},
                                ByPlace{"spec_decode_num_accepted_tokens_per_pos_total",
                                        "Accepted ones by place in the draft.", counts.accepted}}) {
    text.head(metric.name, "counter", metric.help);
    for (std::size_t place = 0; place < kMaxDraftTokens && counts.drafted[place] > 0; ++place)
      text.value(metric.name, metric.counts[place], fmt::format("position=\"{}\"", place));
  }
}

// By the names of keys.
template <class Users>
void add_users(Text& text, const Users& users) {
  if (users.empty()) return;
  const auto add = [&](const char* name, const char* help, auto number) {
    text.head(name, "counter", help);
    for (const auto& [user, counts] : users)
      text.value(name, counts.*number, fmt::format("user=\"{}\"", label_text(user)));
  };
  using Counts = typename Users::mapped_type;
  add("user_requests_total", "Requests that have ended, by the name of their key.", &Counts::requests);
  add("user_prompt_tokens_total", "Prompt tokens, by the name of the key.", &Counts::prompt_tokens);
  add("user_generation_tokens_total", "Tokens generated, by the name of the key.", &Counts::generated_tokens);
}

void add_ranks(Text& text, const std::vector<RankReport>& reports) {
  struct Part {
    const char* name;
    const char* help;
    double TimeParts::*seconds;
  };
  constexpr std::array<Part, 5> kParts = {
      {{"rank_compute_seconds_total", "Seconds a rank spent computing the model.", &TimeParts::compute},
       {"rank_collective_seconds_total", "Seconds a rank spent exchanging data.", &TimeParts::collectives},
       {"rank_waiting_seconds_total", "Seconds a rank spent waiting for slower ranks.", &TimeParts::waiting},
       {"rank_sampling_seconds_total", "Seconds spent choosing tokens.", &TimeParts::sampling},
       {"rank_control_seconds_total", "Seconds between steps, idle ones included.", &TimeParts::control}}};
  for (const Part& part : kParts) {
    text.head(part.name, "counter", part.help);
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      text.value(part.name, reports[rank].time.*part.seconds,
                 fmt::format("rank=\"{}\",host=\"{}\"", rank, label_text(reports[rank].host)));
    }
  }
}

}  // namespace

Metrics::Metrics()
    : first_token_(latency_bounds()),
      between_tokens_(latency_bounds()),
      total_(latency_bounds()),
      queued_(latency_bounds()),
      prompt_lengths_(length_bounds()),
      answer_lengths_(length_bounds()) {
  for (const char* reason : {"stop", "length", "abort", "error"}) ended_[reason] = 0;
}

void Metrics::count_prompt(std::size_t tokens) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += tokens;
  prompt_rate_.add(tokens);
}

void Metrics::count_token(bool is_first, double seconds) {
  const std::lock_guard lock(mutex_);
  ++generated_tokens_;
  generation_rate_.add(1);
  (is_first ? first_token_ : between_tokens_).add(seconds);
}

void Metrics::count_end(const LoggedRequest& call) {
  const bool has_left = call.status == 499;
  if (call.status != 200 && !has_left && call.status < 500) return count_refusal(call.status);
  const std::lock_guard lock(mutex_);
  ++ended_[call.status == 200 ? call.reason : has_left ? "abort" : "error"];
  if (!call.user.empty()) {
    UserCounts& user = users_[call.user];
    ++user.requests;
    user.prompt_tokens += call.prompt_tokens;
    user.generated_tokens += call.generated_tokens;
  }
  if (call.status != 200) return;
  total_.add(call.total);
  queued_.add(call.queued);
  prompt_lengths_.add(static_cast<double>(call.prompt_tokens));
  answer_lengths_.add(static_cast<double>(call.generated_tokens));
}

void Metrics::count_refusal(int status) {
  const std::lock_guard lock(mutex_);
  ++refused_[status];
}

void Metrics::set_reports(std::vector<RankReport> reports) {
  const std::lock_guard lock(mutex_);
  reports_ = std::move(reports);
}

std::vector<RankReport> Metrics::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

std::uint64_t Metrics::generated_tokens() const {
  const std::lock_guard lock(mutex_);
  return generated_tokens_;
}

std::uint64_t Metrics::prompt_tokens() const {
  const std::lock_guard lock(mutex_);
  return prompt_tokens_;
}

double Metrics::prompt_rate() const {
  const std::lock_guard lock(mutex_);
  return prompt_rate_.rate();
}

double Metrics::generation_rate() const {
  const std::lock_guard lock(mutex_);
  return generation_rate_.rate();
}

std::uint64_t Metrics::ended() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& [reason, count] : ended_) total += count;
  return total;
}

std::string Metrics::text(const std::string& model, const LeaderStatus& status, bool is_ready) const {
  const std::lock_guard lock(mutex_);
  Text text(model);
  text.gauge("ready", "Whether requests are taken.", is_ready ? 1 : 0);
  add_load(text, status);
  add_speculation(text, status.speculation);
  add_store(text, status.store);
  text.counter("prompt_tokens_total", "Prompt tokens of all requests.", prompt_tokens_);
  text.counter("generation_tokens_total", "Tokens generated.", generated_tokens_);
  text.head("request_success_total", "counter", "Requests that have ended, by reason.");
  for (const auto& [reason, count] : ended_)
    text.value("request_success_total", count, fmt::format("finished_reason=\"{}\"", reason));
  text.head("request_refused_total", "counter", "Requests that were refused, by HTTP status.");
  for (const auto& [status_code, count] : refused_)
    text.value("request_refused_total", count, fmt::format("status=\"{}\"", status_code));
  add_users(text, users_);
  text.add(first_token_, "time_to_first_token_seconds", "From a request to its first token.");
  text.add(between_tokens_, "inter_token_latency_seconds", "Between tokens of a continuation.");
  text.add(total_, "e2e_request_latency_seconds", "From a request to its last token.");
  text.add(queued_, "request_queue_time_seconds", "From a request to its first step.");
  text.add(prompt_lengths_, "request_prompt_tokens", "Tokens of a request's prompts.");
  text.add(answer_lengths_, "request_generation_tokens", "Tokens generated for a request.");
  add_ranks(text, reports_);
  return text.take();
}

}  // namespace tp
