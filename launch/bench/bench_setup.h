// The machine, program and settings of a measurement.
#pragma once

#include "tp/engine.h"

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

struct BenchSetup {
  std::string version;  // "0.1.0"
  std::string commit;   // "1a2b3c4d5", or "unknown"
  std::string date;     // "2026-11-23", UTC
  std::string cpu;      // CPU of rank 0's host: "AMD EPYC 9354"
  std::string isa;      // instruction set of the kernels: "avx512"
  std::string mpi;      // "Open MPI v4.1.4"
  std::string model;    // last part of the model's path
  std::string kv_type;
  std::size_t ranks = 1;
  std::size_t threads = 1;  // threads of rank 0

  // "tp-infer 0.1.0 (commit 1a2b3c4d5), 2026-11-23: llama-1b.json on AMD EPYC 9354, kernels avx512, ..."
  std::string text() const;
};

// `model`: the path from the command line; empty for the demo model.
BenchSetup bench_setup(const Engine& engine, std::size_t ranks, const std::filesystem::path& model);

void to_json(nlohmann::json& json, const BenchSetup& setup);

}  // namespace tp
