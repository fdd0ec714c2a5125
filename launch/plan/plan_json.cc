#include "launch/plan/plan_text.h"
#include "model/files/json_text.h"
#include "runtime/api/rounded.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

nlohmann::json step_time_json(const StepTime& time) {
  return {{"ms", rounded(1e3 * time.total())},
          {"memory_ms", rounded(1e3 * time.memory)},
          {"arithmetic_ms", rounded(1e3 * time.arithmetic)},
          {"latency_ms", rounded(1e3 * time.sums.latency)},
          {"transfer_ms", rounded(1e3 * time.sums.transfer)},
          {"control_ms", rounded(1e3 * time.control)},
          {"limit", limit_of(time)}};
}

nlohmann::json plan_row_json(const PlanResult& result, const PlanRow& row) {
  nlohmann::json decode = nlohmann::json::array();
  for (std::size_t i = 0; i < result.batches.size(); ++i) {
    nlohmann::json entry = step_time_json(row.decode[i]);
    entry["batch"] = result.batches[i];
    entry["tokens_per_s"] = rounded(result.decode_rate(row, i));
    decode.push_back(std::move(entry));
  }
  nlohmann::json prefill = step_time_json(row.prefill);
  prefill["tokens_per_s"] = rounded(result.prefill_rate(row));
  nlohmann::json json = {{"ranks", row.ranks()},
                         {"hosts", row.hosts},
                         {"stages", row.division.stages},
                         {"ranks_per_stage", row.division.ranks},
                         {"host_bytes", row.memory.peak},
                         {"host_weight_bytes", row.memory.need.weights},
                         {"host_table_bytes", row.memory.tables},
                         {"fits", result.fits(row)},
                         {"cache_tokens", row.memory.cache_tokens},
                         {"prefill", std::move(prefill)},
                         {"decode", std::move(decode)}};
  if (!row.memory.refusal.empty()) json["refusal"] = row.memory.refusal;
  return json;
}

nlohmann::json plan_rows_json(const PlanResult& result, const std::vector<PlanRow>& rows) {
  nlohmann::json json = nlohmann::json::array();
  for (const PlanRow& row : rows) json.push_back(plan_row_json(result, row));
  return json;
}

template <class T>
nlohmann::json number_or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

std::string plan_json(const DescribedModel& model, const PlanResult& result) {
  const Cluster& cluster = result.cluster;
  nlohmann::json json = {{"architecture", model.plan().config.architecture},
                         {"parameters", count_parameters(model.spec())},
                         {"weights", name_of(model.usual_type())},
                         {"kv_type", name_of(model.plan().kv_type())},
                         {"wire", name_of(model.plan().options.wire)},
                         {"cluster",
                          {{"ranks_per_host", cluster.ranks_per_host},
                           {"memory_bytes", cluster.memory},
                           {"bandwidth_gb_s", rounded(cluster.bandwidth / 1e9)},
                           {"tflops", rounded(cluster.flops / 1e12)},
                           {"latency_us", rounded(1e6 * cluster.latency)},
                           {"rate_gbit_s", rounded(8e-9 * cluster.rate)},
                           {"message_us", rounded(1e6 * cluster.message)}}},
                         {"prompt", result.workload.prompt},
                         {"context", result.workload.context},
                         {"cache_tokens", result.tokens.wanted},
                         {"tensor", plan_rows_json(result, result.tensor)},
                         {"pipeline", plan_rows_json(result, result.pipeline)},
                         {"fewest_hosts", number_or_null(result.fewest_hosts)},
                         {"fewest_hosts_of_stages", number_or_null(result.fewest_hosts_of_stages)}};
  if (result.tokens.longest != 0) json["longest_sequence"] = result.tokens.longest;
  if (!result.tensor_ends.empty()) json["tensor_ends"] = result.tensor_ends;
  if (result.asked) {
    json["asked"] = plan_row_json(result, *result.asked);
    json["asked"]["cache_copies"] = rounded(result.asked_copies);
  }
  if (result.asked_pipeline) json["asked_pipeline"] = plan_row_json(result, *result.asked_pipeline);
  if (!result.asked_refusal.empty()) json["asked_refusal"] = result.asked_refusal;
  return json_text(json, 2) + "\n";
}

}  // namespace tp
