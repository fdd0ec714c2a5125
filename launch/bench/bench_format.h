// The rows of `bench` as text.
#pragma once

#include "launch/bench/bench_setup.h"
#include "launch/bench/bench_summary.h"
#include "tp/engine.h"

#include <cstdint>
#include <string>

namespace tp {

enum class BenchFormat : std::uint8_t { table, json, csv, markdown };

// What comes before the rows, or nothing.
std::string bench_heading(BenchFormat format, const BenchSetup& setup);

// A row: in a table followed by lines about anything unusual, as JSON an object on one line. In JSON and CSV
// it has what it was measured with, too.
std::string text_of(const BenchSummary& summary, const Engine& engine, BenchFormat format,
                    const BenchSetup& setup);

}  // namespace tp
