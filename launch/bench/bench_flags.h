// The options of `bench`.
#pragma once

#include "launch/bench/bench_format.h"
#include "launch/bench/bench_replay.h"
#include "launch/options/engine_flags.h"
#include "tp/request.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

struct BenchFlags {
  EngineFlags engine;
  std::string synthetic;
  std::vector<std::size_t> prompts = {512};
  bool has_prompts = false;  // given; otherwise the lengths are reduced to fit the model
  std::size_t generate = 64;
  bool has_generate = false;
  std::vector<std::size_t> batches = {1};
  int repeat = 1;
  bool constraint = false;
  std::string acceptance_trace;
  BenchReplay replay{};   // the texts of acceptance_trace
  bool generates = true;  // whether the model generates text
  std::optional<float> temperature;
  SamplingParams sampling;  // all sampling settings except the temperature
  bool json = false;
  bool csv = false;
  bool markdown = false;
  std::string output;
  std::string trace;

  BenchFormat format() const;
  // Returns the sampling parameters: greedy without sampling options. Throws RequestError.
  SamplingParams chosen_by() const;
  std::size_t largest_batch() const { return *std::ranges::max_element(batches); }
  std::size_t longest_prompt() const { return *std::ranges::max_element(prompts); }
};

// Adds the options. `flags` must outlive the command.
void add_bench_options(CLI::App& command, BenchFlags& flags);

// Records the given options. Throws CLI::ValidationError for options that contradict each other.
void check_bench_options(const CLI::App& command, BenchFlags& flags);

}  // namespace tp
