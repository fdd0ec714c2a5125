// The rows of `bench` as text.
#pragma once

#include "launch/bench/bench_setup.h"
#include "launch/bench/bench_summary.h"
#include "tp/engine.h"

#include <cstdint>
#include <string>

namespace tp {

enum class BenchFormat : std::uint8_t { table, json, csv, markdown };

// Returns the lines before the rows. May be empty.
std::string bench_heading(BenchFormat format, const BenchSetup& setup);

// Returns one row. A table row is followed by lines about anything unusual. A JSON row is one line with one
// object. JSON and CSV rows also contain the setup.
std::string format_summary(const BenchSummary& summary, const Engine& engine, BenchFormat format,
                           const BenchSetup& setup);

}  // namespace tp
