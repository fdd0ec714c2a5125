// Formats a RankReport's NUMA nodes, as text and as JSON.
#pragma once

#include "tp/rank_report.h"

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A kind of memory: its name and its pages.
struct NumaMemory {
  const char* name;
  NodePages RankNuma::*pages;
};
inline constexpr NumaMemory kNumaWeights{"weights", &RankNuma::weights};
inline constexpr NumaMemory kNumaCache{"cache", &RankNuma::cache};
inline constexpr NumaMemory kNumaWindow{"window", &RankNuma::window};

// Whether any rank's host has several nodes.
bool has_numa(std::span<const RankReport> reports);

// Returns a table of the ranks' cores and pages, without kinds of memory that have no pages on any rank.
// Returns a single line if no host has several nodes.
std::string numa_text(std::span<const RankReport> reports,
                      std::initializer_list<NumaMemory> kinds = {kNumaWeights, kNumaCache, kNumaWindow});

// Returns a line for every rank with more than 5 % of a kind of memory on remote nodes, which have none of
// its cores.
std::vector<std::string> numa_warnings(std::span<const RankReport> reports,
                                       std::initializer_list<NumaMemory> kinds = {kNumaWeights, kNumaCache,
                                                                                  kNumaWindow});

// Returns members of a rank's object: `numa_nodes` (null if unknown), and `numa` if there are several nodes.
nlohmann::json numa_json(const RankNuma& numa);

}  // namespace tp
