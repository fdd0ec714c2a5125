#include "launch/plan/plan_text.h"

#include "launch/common/table.h"
#include "launch/plan/plan_flags.h"
#include "runtime/setup/memory_plan.h"
#include "runtime/text/format_bytes.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace tp {
namespace {

std::string rate_text(double rate) {
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.3g}", rate);
}

std::string fit_text(const PlanResult& result, const PlanRow& row) {
  if (result.fits(row)) return "yes";
  return row.memory.cache_tokens == 0 || result.has_room(row)
             ? "no"
             : fmt::format("{} tokens", row.memory.cache_tokens);
}

// Efficiencies are relative to `one`, which has one rank. The names of batches have a line of their own, so
// that the table fits in 100 columns.
std::string table_text(const PlanResult& result, const std::vector<PlanRow>& rows, const PlanRow& one) {
  std::vector<std::string> batches(6);
  std::vector<std::string> names = {"ranks", "hosts", "per host", "fits", "prefill/s", "eff."};
  for (const std::size_t batch : result.batches) {
    batches.insert(batches.end(), {"", "", fmt::format("decode x {}", batch)});
    names.insert(names.end(), {"/s", "eff.", "limit"});
  }
  Table table(batches);
  table.add(names);
  for (const PlanRow& row : rows) {
    const auto ranks = static_cast<double>(row.ranks());
    const auto percent = [&](double rate, double rate_of_one) {
      return fmt::format("{:.0f}%", 100 * rate / (ranks * rate_of_one));
    };
    std::vector<std::string> cells = {fmt::to_string(row.ranks()), fmt::to_string(row.hosts)};
    cells.insert(cells.end(),
                 {format_bytes(row.memory.peak), fit_text(result, row), rate_text(result.prefill_rate(row)),
                  percent(result.prefill_rate(row), result.prefill_rate(one))});
    for (std::size_t i = 0; i < result.batches.size(); ++i) {
      cells.push_back(rate_text(result.decode_rate(row, i)));
      cells.push_back(percent(result.decode_rate(row, i), result.decode_rate(one, i)));
      cells.emplace_back(limit_of(row.decode[i]));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

// Draws a bar for each row. Its parts are the parts of a step's time.
std::string drawing(const std::vector<PlanRow>& rows, std::size_t index) {
  constexpr double kWidth = 60.0;
  double longest = 0.0;
  for (const PlanRow& row : rows) longest = std::max(longest, row.decode[index].total());
  std::string text;
  for (const PlanRow& row : rows) {
    const StepTime& time = row.decode[index];
    const double parts[] = {time.memory, time.arithmetic, time.sums.transfer, time.sums.latency,
                            time.control};
    std::string bar;
    double until = 0.0;
    for (std::size_t part = 0; part < std::size(parts); ++part) {
      until += parts[part];
      const auto columns = static_cast<std::size_t>(std::lround(kWidth * until / longest));
      bar.resize(std::max(bar.size(), columns), "#+=~."[part]);
    }
    text += fmt::format("{:>5} |{} {:.3g} ms\n", row.ranks(), bar, 1e3 * time.total());
  }
  return text + "       # memory  + arithmetic  = bytes on the wire  ~ latency of sums  . between steps\n";
}

template <class RateOf>
std::string worthwhile_text(const PlanResult& result, const std::string& what, const RateOf& rate_of) {
  std::vector<double> rates;
  for (const PlanRow& row : result.tensor) rates.push_back(rate_of(row));
  const std::size_t last = last_worthwhile(rates);
  const std::size_t ranks = result.tensor[last].ranks();
  const char* const plural = ranks == 1 ? "" : "s";
  if (last + 1 == rates.size()) return fmt::format("{} gains up to {} rank{}", what, ranks, plural);
  return fmt::format("{} stops paying at {} rank{} ({} are {:.2g} times as fast)", what, ranks, plural,
                     result.tensor[last + 1].ranks(), rates[last + 1] / rates[last]);
}

std::string hosts_text(const std::optional<std::size_t>& hosts) {
  return hosts ? fmt::to_string(*hosts) : "no number of them suffices";
}

// Compares the speed of the two divisions of the hosts.
std::string comparison(const PlanResult& result) {
  const auto better = [](double tensor, double pipeline) {
    constexpr double kAlike = 1.05;
    if (std::max(tensor, pipeline) < kAlike * std::min(tensor, pipeline)) return std::string("alike");
    return tensor >= pipeline ? fmt::format("heads ({:.2g} times as fast)", tensor / pipeline)
                              : fmt::format("stages ({:.2g} times as fast)", pipeline / tensor);
  };
  std::string text;
  const auto add = [&](const std::string& what, double tensor, double pipeline) {
    text +=
        fmt::format("{:<18}{} tokens/s by heads, {} in {} stages: {}\n", what, rate_text(tensor),
                    rate_text(pipeline), result.asked_pipeline->division.stages, better(tensor, pipeline));
  };
  add("  prefill", result.prefill_rate(*result.asked), result.prefill_rate(*result.asked_pipeline));
  for (std::size_t i = 0; i < result.batches.size(); ++i) {
    add(fmt::format("  decode x {}", result.batches[i]), result.decode_rate(*result.asked, i),
        result.decode_rate(*result.asked_pipeline, i));
  }
  return text;
}

std::string asked_text(const PlanResult& result) {
  std::string text;
  const auto out = std::back_inserter(text);
  if (!result.asked_refusal.empty()) fmt::format_to(out, "{}\n", result.asked_refusal);
  if (result.asked) {
    const PlanRow& row = *result.asked;
    fmt::format_to(out, "{} host{} x {} rank{}:\n", row.hosts, row.hosts == 1 ? "" : "s",
                   result.cluster.ranks_per_host, result.cluster.ranks_per_host == 1 ? "" : "s");
    const MemoryNeed& need = row.memory.need;
    fmt::format_to(out, "  memory          {} of {} per host: weights {}, cache {}, other {}\n",
                   format_bytes(row.memory.peak), format_bytes(result.cluster.memory),
                   format_bytes(need.weights), format_bytes(row.memory.cache),
                   format_bytes(without_cache(need) - need.weights));
    fmt::format_to(out, "  while loading   {}\n", format_bytes(while_loading(need)));
    if (row.memory.tables != 0) {
      fmt::format_to(out, "  hash tables     {} of the page cache per host, mapped from the files{}\n",
                     format_bytes(row.memory.tables),
                     row.memory.peak + row.memory.tables > result.cluster.memory
                         ? "; rows that don't fit are read from the disk"
                         : "");
    }
    if (!row.memory.refusal.empty()) fmt::format_to(out, "  {}\n", row.memory.refusal);
    if (result.asked_copies > 1.005) {
      fmt::format_to(out,
                     "  KV heads        several ranks hold the same: the cache takes {:.2f} times as much\n",
                     result.asked_copies);
    }
  }
  if (result.asked && result.asked_pipeline) text += comparison(result);
  return text;
}

}  // namespace

std::string plan_text(const DescribedModel& model, const PlanResult& result) {
  std::string text;
  const auto out = std::back_inserter(text);
  const Cluster& cluster = result.cluster;
  fmt::format_to(out, "{}, {:.3g} G parameters, weights in {}, cache in {}, sums between hosts in {}\n",
                 model.plan().config.architecture, static_cast<double>(count_parameters(model.spec())) / 1e9,
                 name_of(model.usual_type()), name_of(model.plan().kv_type()),
                 name_of(model.plan().options.wire));
  fmt::format_to(out, "predicted for {}\n", cluster_flags(cluster));
  fmt::format_to(out, "a prompt of {} tokens; decoding with {} tokens in the cache of each sequence\n",
                 result.workload.prompt, result.workload.context);
  if (result.tokens.longest != 0) {
    fmt::format_to(
        out,
        "notice: sequences of this model have at most {0} tokens, so that nothing fits; give --context "
        "and --prompt up to {0}\n",
        result.tokens.longest);
  }
  text += "\n";
  text += table_text(result, result.tensor, result.tensor.front());
  if (!result.tensor_ends.empty()) fmt::format_to(out, "{}\n", result.tensor_ends);
  fmt::format_to(out, "\na step that decodes {}:\n", result.batches.front());
  text += drawing(result.tensor, 0);
  fmt::format_to(out, "\n{}\n", worthwhile_text(result, "prefill", [&](const PlanRow& row) {
                   return result.prefill_rate(row);
                 }));
  for (std::size_t i = 0; i < result.batches.size(); ++i) {
    fmt::format_to(out, "{}\n",
                   worthwhile_text(result, fmt::format("decode x {}", result.batches[i]),
                                   [&](const PlanRow& row) { return result.decode_rate(row, i); }));
  }
  fmt::format_to(out, "fewest hosts on which it fits: {} divided by heads, {} as stages of a pipeline\n",
                 hosts_text(result.fewest_hosts), hosts_text(result.fewest_hosts_of_stages));
  if (!result.pipeline.empty()) {
    text += "\na stage on each host:\n";
    text += table_text(result, result.pipeline, result.tensor.front());
  }
  const std::string asked = asked_text(result);
  if (!asked.empty()) fmt::format_to(out, "\n{}", asked);
  return text;
}

}  // namespace tp
