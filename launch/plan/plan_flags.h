// Quantities with units, as `plan` reads and `plan --probe` writes them.
#pragma once

#include "runtime/plan/cluster.h"

#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace tp {

// The number of a text such as "300GB/s", "4T", "30us" or "10Gb", with any of these units after the number
// and its prefix (K, M, G, T): B/s and b/s per second, flop/s, or s (prefixes u, m). Nothing if it is
// something else, or not positive. `binary`: prefixes count in 1024s.
std::optional<double> parse_quantity(std::string_view text, std::string_view unit, bool binary = false);

// Adds --ranks-per-host, --memory, --bandwidth, --flops and --net, which fill in `cluster`, which outlives
// the command.
void add_cluster_options(CLI::App& command, Cluster& cluster);

// The options as text, with three digits.
std::string cluster_flags(const Cluster& cluster);
// "30us,10Gb,5us"
std::string net_text(const Cluster& cluster);

}  // namespace tp
