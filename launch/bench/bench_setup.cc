#include "launch/bench/bench_setup.h"

#include "launch/common/version_text.h"
#include "model/kernels/simd/isa.h"
#include "parallel/exchange/mpi_session.h"
#include "tp/version.h"

#include <ctime>
#include <fstream>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Returns the CPU's name from Linux.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string last_part(const std::filesystem::path& model) {
  if (model.empty()) return "demo model";
  return (model.has_filename() ? model : model.parent_path()).filename().string();
}

}  // namespace

BenchSetup bench_setup(const Engine& engine, std::size_t ranks, const std::filesystem::path& model) {
  return {.version = kVersion,
          .commit = std::string(build_commit()),
          .date = fmt::format("{:%F}", fmt::gmtime(std::time(nullptr))),
          .cpu = cpu_name(),
          .isa = std::string(kernels::name_of(kernels::active_isa())),
          .mpi = mpi_library(),
          .model = last_part(model),
          .kv_type = std::string(name_of(*engine.info().options.kv_type)),
          .ranks = ranks,
          .threads = engine.info().options.threads};
}

std::string BenchSetup::text() const {
  return fmt::format("{}, {}: {} on {}, kernels {}, {}, {} rank{} x {} thread{}, cache in {}", version_text(),
                     date, model, cpu, isa, mpi, ranks, ranks == 1 ? "" : "s", threads,
                     threads == 1 ? "" : "s", kv_type);
}

void to_json(nlohmann::json& json, const BenchSetup& setup) {
  json = {{"version", setup.version}, {"commit", setup.commit}, {"date", setup.date},  {"cpu", setup.cpu},
          {"isa", setup.isa},         {"mpi", setup.mpi},       {"model", setup.model}};
}

}  // namespace tp
