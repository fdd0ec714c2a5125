#include "launch/bench/bench_row.h"

#include "launch/bench/bench_summary.h"
#include "launch/common/rate.h"
#include "launch/common/table.h"
#include "launch/ranks/numa_report.h"
#include "model/kernels/packed_weight.h"
#include "runtime/api/rounded.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

nlohmann::json rank_json(const RankReport& report) {
  nlohmann::json json = {{"host", report.host},
                         {"compute_s", rounded(report.time.compute)},
                         {"collective_s", rounded(report.time.collectives)},
                         {"waiting_s", rounded(report.time.waiting)},
                         {"sampling_s", rounded(report.time.sampling)},
                         {"control_s", rounded(report.time.control)},
                         {"peak_resident_bytes", report.peak_resident_bytes},
                         {"weight_bytes", report.weight_bytes},
                         {"cache_bytes", report.cache_bytes},
                         {"workspace_bytes", report.workspace_bytes}};
  json.update(numa_json(report.numa));
  return json;
}

// The peak of the fastest unit that matmuls of many tokens can run on.
double peak_of(const PeakRates& peaks, WeightType weights) {
  const bool pairs = weights == WeightType::bf16 || weights == WeightType::f8_e4m3;
  if (pairs && peaks.bf16_per_second > 0) return peaks.bf16_per_second;
  const bool integers = weights >= WeightType::int8 && !kernels::is_scaled(weights);
  return integers && peaks.int8_per_second > 0 ? peaks.int8_per_second : peaks.f32_per_second;
}

Rate streaming_of(const nlohmann::json& row) { return {row.at("bandwidth_gb_s"), row.at("streaming_gb_s")}; }
Rate arithmetic_of(const nlohmann::json& row) { return {row.at("tflops"), row.at("peak_tflops")}; }

nlohmann::json rate_fields(const BenchSummary& summary, WeightType weights) {
  const StepCost& work = summary.work;
  const double steps_per_second = static_cast<double>(summary.row.steps) / summary.row.seconds;
  return {{"weight_bytes_per_step", rounded(work.weight_bytes, 9)},
          {"cache_bytes_per_step", rounded(work.cache_bytes, 9)},
          {"bandwidth_gb_s", rounded(work.bytes() * steps_per_second / 1e9)},
          {"streaming_gb_s", rounded(summary.peaks.streaming_bytes_per_second / 1e9)},
          {"streaming_gb_s_before", rounded(summary.before.streaming_bytes_per_second / 1e9)},
          {"streaming_gb_s_after", rounded(summary.after.streaming_bytes_per_second / 1e9)},
          {"tflops", rounded(2.0 * work.multiplications * steps_per_second / 1e12)},
          {"peak_tflops", rounded(peak_of(summary.peaks, weights) / 1e12)}};
}

nlohmann::json rank_fields(const BenchRow& row) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankReport& report : row.ranks) ranks.push_back(rank_json(report));
  const RankReport& first = row.ranks.front();
  const TimeParts time = mean_time(row.ranks);
  const auto per_token = [&](std::uint64_t bytes) {
    return rounded(static_cast<double>(bytes) / static_cast<double>(row.tokens), 9);
  };
  const auto share = [&](double seconds) { return rounded(seconds / row.seconds); };
  return {{"ranks", row.ranks.size()},
          {"threads", first.threads},
          {"all_reduces_per_step", first.all_reduces / first.steps},
          {"all_reduce_bytes_per_token", per_token(first.all_reduce_bytes)},
          {"wire_bytes_per_token", per_token(first.wire_bytes)},
          {"wire_share", share(first.wire_seconds)},
          {"compute_share", share(time.compute)},
          {"collective_share", share(time.collectives)},
          {"waiting_share", share(time.waiting)},
          {"sampling_share", share(time.sampling)},
          {"control_share", share(time.control)},
          {"slowest_rank", slowest_rank(row.ranks)},
          {"per_rank", ranks}};
}

// Returns a line about the slowest rank if the other ranks wait for it considerably; otherwise an empty text.
std::string slow_rank_text(const BenchRow& row) {
  constexpr double kMuch = 0.1;  // share of the time, averaged over the other ranks
  if (row.ranks.size() < 2) return {};
  const std::size_t slowest = slowest_rank(row.ranks);
  double waiting = 0.0;
  for (const RankReport& report : row.ranks) waiting += report.time.waiting - row.ranks[slowest].time.waiting;
  const double share = waiting / static_cast<double>(row.ranks.size() - 1) / row.seconds;
  if (share < kMuch) return {};
  return fmt::format("         the others wait {:.0f} % of the time for rank {} on {}\n", 100 * share,
                     slowest, row.ranks[slowest].host);
}

// Columns that are wide enough for most rows.
Table make_table() {
  return Table({"phase", "batch", "prompt", "weights", "ranks", "threads", "tokens/s", "spread", "ms/step",
                "of streaming", "of arithmetic", "collective", "waiting"},
               {7, 5, 6, 7, 5, 7, 10, 6, 10});
}

std::string excess_text(const Rate& rate, const char* what, const char* unit, const char* reason) {
  if (!rate.exceeds()) return {};
  return fmt::format("         {} {}: {}\n", what, rate.excess(unit), reason);
}

// Returns "2", or "1 of 16" if the ranks pretend to be the first of 16.
std::string ranks_text(const nlohmann::json& row) {
  const std::string ranks = fmt::to_string(row.at("ranks").get<std::size_t>());
  return row.contains("pretend_ranks")
             ? fmt::format("{} of {}", ranks, row["pretend_ranks"].get<std::size_t>())
             : ranks;
}

}  // namespace

double step_quantile(const BenchRow& row, double q) {
  std::vector<double> sorted = row.step_seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted.at(static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1)));
}

std::string bench_header() { return make_table().header(); }

std::string spread_text(const BenchSummary& summary) {
  return summary.runs == 1 ? "-" : fmt::format("{:.1f}%", 100 * summary.spread());
}

nlohmann::json row_json(const BenchSummary& summary, const Engine& engine) {
  const BenchRow& row = summary.row;
  const EngineInfo& info = engine.info();
  nlohmann::json json = {{"phase", row.phase},
                         {"batch", row.batch},
                         {"prompt", row.prompt},
                         {"tokens", row.tokens},
                         {"steps", row.steps},
                         {"seconds", rounded(row.seconds)},
                         {"tokens_per_s", rounded(row.tokens_per_second())},
                         {"runs", summary.runs},
                         {"tokens_per_s_least", rounded(summary.min)},
                         {"tokens_per_s_most", rounded(summary.max)},
                         {"ms_per_step", rounded(row.ms_per_step())},
                         {"sampling",
                          {{"temperature", rounded(row.sampling.temperature)},
                           {"top_k", row.sampling.top_k},
                           {"top_p", rounded(row.sampling.top_p)}}},
                         {"weights", name_of(info.weights)},
                         {"kv_type", name_of(*info.options.kv_type)},
                         {"parameters", info.parameters}};
  json.update(rate_fields(summary, info.weights));
  json.update(rank_fields(row));
  if (streaming_of(json).exceeds()) json["peaks_exceeded"].push_back("streaming_gb_s");
  if (arithmetic_of(json).exceeds()) json["peaks_exceeded"].push_back("peak_tflops");
  if (info.options.pretend_ranks != 0) json["pretend_ranks"] = info.options.pretend_ranks;
  if (!row.token_ids.empty()) json["token_ids"] = row.token_ids;
  if (!row.text.empty()) json["text"] = row.text;
  if (row.speculation.drafts > 0) {
    json["drafted_tokens"] = row.speculation.drafted_tokens();
    json["accepted_tokens"] = row.speculation.accepted_tokens();
  }
  return json;
}

std::string line_text(const BenchSummary& summary, const nlohmann::json& object) {
  const BenchRow& row = summary.row;
  const auto percent = [&](const char* field) {
    return fmt::format("{:.1f}%", 100 * object.at(field).get<double>());
  };
  const Rate streaming = streaming_of(object);
  const Rate arithmetic = arithmetic_of(object);
  return make_table().line({row.phase, fmt::to_string(row.batch), fmt::to_string(row.prompt),
                            object.at("weights"), ranks_text(object),
                            fmt::to_string(row.ranks.front().threads),
                            fmt::format("{:.1f}", row.tokens_per_second()), spread_text(summary),
                            fmt::format("{:.3f}", row.ms_per_step()), streaming.share(), arithmetic.share(),
                            percent("collective_share"), percent("waiting_share")}) +
         excess_text(streaming, "weights and cache were read at", "GB/s",
                     "that measurement was disturbed, or the weights stay in the caches") +
         excess_text(arithmetic, "the matmuls reached", "TFLOP/s", "that measurement was disturbed") +
         slow_rank_text(row);
}

}  // namespace tp
