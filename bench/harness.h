// Shared parts of the benchmark programs: main functions, options, timing, and random inputs.
#pragma once

#include "bench/interval.h"
#include "parallel/machine/stopwatch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

namespace tp::bench {

// Parses the command line and calls work(). An exception becomes one message. `name`: the program's name.
template <class Work>
int run_program(const char* name, CLI::App& app, int argc, char** argv, const Work& work) {
  CLI11_PARSE(app, argc, argv);
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

inline void add_json(CLI::App& app, bool& json) { app.add_flag("--json", json, "One JSON object per line"); }

template <class Count>
void add_threads(CLI::App& app, Count& threads, const char* text = "Threads of each rank") {
  app.add_option("--threads", threads, text)->check(CLI::PositiveNumber);
}

// At least as many measurements as an Interval needs.
inline void add_pairs(CLI::App& app, std::size_t& pairs,
                      const char* text = "Alternating measurements of both", const char* option = "--pairs") {
  app.add_option(option, pairs, text)->check(CLI::Range(12, 10000));
}

// Prints one of the two forms of a result.
inline void print_line(bool json, const std::string& object, const std::string& line) {
  fmt::print("{}\n", json ? object : line);
  std::fflush(stdout);
}

// "1.23 [1.20, 1.31]"
inline std::string with_bounds(const Interval& interval, int digits, double factor = 1.0) {
  return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", interval.median * factor, digits, interval.low * factor,
                     digits, interval.high * factor, digits);
}

template <class Work>
double seconds_of(const Work& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

// Measures work() `count` times.
template <class Work>
Interval measure_times(std::size_t count, const Work& work) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < count; ++i) seconds.push_back(seconds_of(work));
  return interval_of(std::move(seconds));
}

// Returns the seconds of the fastest of several runs: more of a short run, and only one of a long run.
template <class Work>
double best_seconds(const Work& work) {
  constexpr int kRuns = 5;
  constexpr int kMaxRuns = 200;
  constexpr double kShort = 0.15;  // seconds of all runs
  constexpr double kLong = 2.0;
  double best = INFINITY;
  const Stopwatch total;
  for (int i = 0; (i < kRuns || total.seconds() < kShort) && i < kMaxRuns && (i == 0 || best < kLong); ++i)
    best = std::min(best, seconds_of(work));
  return best;
}

// Numbers from -1 to 1.
inline void fill_randomly(std::span<float> numbers, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(-1.0F, 1.0F);
  for (float& number : numbers) number = distribution(engine);
}

}  // namespace tp::bench
