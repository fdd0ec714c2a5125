// Quantities with units, which `plan` reads and `plan --probe` writes.
#pragma once

#include "runtime/plan/cluster.h"

#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace tp {

// Parses a text such as "300GB/s", "4T", "30us" or "10Gb": a number, a prefix (K, M, G, T), and one of these
// units: B/s and b/s per second, flop/s, or s (prefixes u, m). Returns nothing for other texts and for
// numbers that are not positive. `binary`: prefixes count in 1024s.
std::optional<double> parse_quantity(std::string_view text, std::string_view unit, bool binary = false);

// Adds --ranks-per-host, --memory, --bandwidth, --flops and --net, which set `cluster`. `cluster` must
// outlive the command.
void add_cluster_options(CLI::App& command, Cluster& cluster);

// The options as text, with three digits.
std::string cluster_flags(const Cluster& cluster);
// "30us,10Gb,5us"
std::string net_text(const Cluster& cluster);

}  // namespace tp
