// Formats a RankReport's NUMA nodes, as text and as JSON.
#pragma once

#include "tp/rank_report.h"

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A kind of memory: what to call it, and its pages.
struct NumaMemory {
  const char* name;
  NodePages RankNuma::*pages;
};
inline constexpr NumaMemory kNumaWeights{"weights", &RankNuma::weights};
inline constexpr NumaMemory kNumaCache{"cache", &RankNuma::cache};
inline constexpr NumaMemory kNumaWindow{"window", &RankNuma::window};

// Whether any rank's host has several nodes.
bool has_numa(std::span<const RankReport> reports);

// A table of where the ranks' cores and pages are, without the kinds of memory that no rank has pages of. A
// single line where no host has several nodes.
std::string numa_text(std::span<const RankReport> reports,
                      std::initializer_list<NumaMemory> kinds = {kNumaWeights, kNumaCache, kNumaWindow});

// A line for every rank of which more than 5 % of a kind of memory is remote: on nodes without its cores.
std::vector<std::string> numa_warnings(std::span<const RankReport> reports,
                                       std::initializer_list<NumaMemory> kinds = {kNumaWeights, kNumaCache,
                                                                                  kNumaWindow});

// Members of a rank's object: `numa_nodes`, null if unknown, and where there are several, `numa`.
nlohmann::json numa_json(const RankNuma& numa);

}  // namespace tp
