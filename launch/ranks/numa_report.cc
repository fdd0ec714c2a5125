#include "launch/ranks/numa_report.h"

#include "launch/common/table.h"
#include "runtime/api/rounded.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

namespace tp {
namespace {

constexpr double kMaxRemote = 0.05;
constexpr const char* kNothing = "-";

std::vector<std::size_t> nodes_in(std::uint64_t bits) {
  std::vector<std::size_t> nodes;
  for (std::size_t node = 0; node < kMaxNumaNodes; ++node) {
    if ((bits >> node & 1) != 0) nodes.push_back(node);
  }
  return nodes;
}

std::string text_of_nodes(std::uint64_t bits) { return fmt::format("{}", fmt::join(nodes_in(bits), ",")); }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Calls body(node, share) for every node with pages.
template <class Body>
void for_shares(const NodePages& pages, const Body& body) {
  const auto all = static_cast<double>(pages.total());
  for (std::size_t node = 0; node < kMaxNumaNodes; ++node) {
    if (pages.on_node[node] != 0) body(node, static_cast<double>(pages.on_node[node]) / all);
  }
}

// "1", or "0: 2.5 %, 1: 97.5 %".
std::string text_of_pages(const NodePages& pages) {
  std::vector<std::string> shares;
  std::string only;
  for_shares(pages, [&](std::size_t node, double share) {
    only = fmt::to_string(node);
    shares.push_back(fmt::format("{}: {}", node, percent(share)));
  });
  if (shares.empty()) return kNothing;
  return shares.size() == 1 ? only : fmt::format("{}", fmt::join(shares, ", "));
}

// Returns the line for hosts with one NUMA node each.
std::string text_without_numa(std::span<const RankReport> reports) {
  if (std::ranges::any_of(reports, [](const RankReport& report) { return report.numa.nodes == 0; }))
    return "NUMA nodes are unknown: Linux does not list them in /sys/devices/system/node\n";
  std::set<std::string> hosts;
  for (const RankReport& report : reports) hosts.emplace(report.host);
  return hosts.size() > 1 ? "every host has one NUMA node\n" : "this machine has one NUMA node\n";
}

bool tells_no_pages(const RankReport& report) {
  return report.numa.nodes > 1 && report.numa.pages_known == 0;
}

}  // namespace

bool has_numa(std::span<const RankReport> reports) {
  return std::ranges::any_of(reports, [](const RankReport& report) { return report.numa.nodes > 1; });
}

std::string numa_text(std::span<const RankReport> reports, std::initializer_list<NumaMemory> kinds) {
  if (!has_numa(reports)) return text_without_numa(reports);
  std::vector<std::string> columns = {"rank", "NUMA nodes of cores"};
  std::vector<NumaMemory> shown;
  for (const NumaMemory& kind : kinds) {
    if (std::ranges::none_of(
            reports, [&](const RankReport& report) { return (report.numa.*kind.pages).total() != 0; }))
      continue;
    shown.push_back(kind);
    columns.insert(columns.end(), {fmt::format("of {}", kind.name), "remote"});
  }
  Table table(columns);
  std::size_t rank = 0;
  for (const RankReport& report : reports) {
    const RankNuma& numa = report.numa;
    std::vector<std::string> cells = {fmt::to_string(rank++),
                                      numa.nodes == 0 ? kNothing : text_of_nodes(numa.core_nodes)};
    for (const NumaMemory& kind : shown) {
      const NodePages& pages = numa.*kind.pages;
      cells.push_back(text_of_pages(pages));
      cells.push_back(pages.total() == 0 ? kNothing : percent(pages.remote_share(numa.core_nodes)));
    }
    table.add(std::move(cells));
  }
  std::string text = table.text();
  if (std::ranges::any_of(reports, tells_no_pages))
    text +=
        "where pages lie is not known of every rank: its kernel or sandbox refuses move_pages (Docker allows "
        "it "
        "with --cap-add SYS_NICE)\n";
  return text;
}

std::vector<std::string> numa_warnings(std::span<const RankReport> reports,
                                       std::initializer_list<NumaMemory> kinds) {
  std::vector<std::string> warnings;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const RankNuma& numa = reports[rank].numa;
    std::vector<std::string> found;
    for (const NumaMemory& kind : kinds) {
      const double remote = (numa.*kind.pages).remote_share(numa.core_nodes);
      if (numa.nodes > 1 && remote > kMaxRemote)
        found.push_back(fmt::format("{} of its {}", percent(remote), kind.name));
    }
    if (found.empty()) continue;
    warnings.push_back(
        fmt::format("tp-infer: rank {} on {}: expected its memory on NUMA node {}, where its cores are, "
                    "found {} on other nodes; bind every rank to one node (mpirun --map-by ppr:1:numa "
                    "--bind-to numa), or if it is bound, free memory on that node",
                    rank, reports[rank].host, text_of_nodes(numa.core_nodes), fmt::join(found, " and ")));
  }
  return warnings;
}

nlohmann::json numa_json(const RankNuma& numa) {
  nlohmann::json json = {{"numa_nodes", nullptr}};
  if (numa.nodes != 0) json["numa_nodes"] = numa.nodes;
  if (numa.nodes < 2) return json;
  json["numa"]["core_nodes"] = nodes_in(numa.core_nodes);
  for (const NumaMemory& kind : {kNumaWeights, kNumaCache, kNumaWindow}) {
    const NodePages& pages = numa.*kind.pages;
    nlohmann::json& memory = json["numa"][kind.name];  // null if the memory has no pages, or they are unknown
    if (pages.total() == 0) continue;
    for_shares(pages, [&](std::size_t node, double share) {
      memory["shares"][fmt::to_string(node)] = rounded(share);
    });
    memory["remote_share"] = rounded(pages.remote_share(numa.core_nodes));
  }
  return json;
}

}  // namespace tp
