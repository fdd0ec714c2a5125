// The options of subcommands that open an engine, in groups.
#pragma once

#include "tp/engine.h"

#include <cstddef>
#include <cstdint>

#include <CLI/CLI.hpp>

namespace tp {

// Accepted values of --weights: the types to which weights can be converted, or all types in which they can
// be generated.
enum class WeightNames : std::uint8_t { convertible, all };

// Adds the options that decide a model's memory and speed to a command that opens no engine: --model,
// --weights, --kv-type, --lora, --same-bits, --split and --prefill-chunk. `options` must outlive the command.
void add_described_options(CLI::App& command, EngineOptions& options);

// The engine's options from the command line.
struct EngineFlags {
  EngineOptions options{.model = {}, .max_sequences = 1};
  EngineHooks hooks{};
  bool verbose = false;
  double timeout = 0.0;  // seconds that a rank waits for another; 0: forever

  // A command adds only the groups that can change its work.
  //
  // Every engine: --model, --weights, --threads, --prefill-chunk, --cache-tokens, ...
  void add_to(CLI::App& command, WeightNames names = WeightNames::convertible);
  // Models that compute one token after another: --attention, --pipeline, --two-batch-overlap, --kv-slices.
  // The engine refuses them for encoders.
  void add_causal_options_to(CLI::App& command);
  // Commands for models with several tasks: --task.
  void add_task_option_to(CLI::App& command);
  // Commands that generate text: --kv-store and its settings.
  void add_store_options_to(CLI::App& command);
  // Commands that submit several requests at the same time: --max-sequences. By default, the engine runs
  // `usual` of them, or a single request in commands without the option.
  void add_batch_option_to(CLI::App& command, std::size_t usual = 16);
  // Commands that generate with a diffusion language model: --unmask-cache.
  void add_unmask_cache_option_to(CLI::App& command);
};

}  // namespace tp
