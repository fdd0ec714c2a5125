#include "launch/options/engine_flags.h"

#include "launch/common/option_checks.h"
#include "launch/options/attention_flag.h"
#include "launch/options/split_flag.h"
#include "launch/options/unmasking_flags.h"
#include "launch/options/wire_flag.h"
#include "parallel/machine/processors.h"

#include <string>

namespace tp {

void EngineFlags::add_to(CLI::App& command, WeightNames names) {
  const bool all = names == WeightNames::all;
  command
      .add_option_function<std::string>(
          "-m,--model", [this](const std::string& folder) { options.model = folder; },
          "A folder with config.json, *.safetensors and a tokenizer; a GGUF file; or the name of a "
          "downloaded model, ORG/NAME or ORG/NAME:FILE (default: the demo model)")
      ->check(not_empty("a model"))
      ->type_name("DIR");
  command
      .add_option_function<std::string>(
          "--weights", [this](const std::string& name) { options.weights = find_generated_type(name); },
          std::string("Type of the weights in memory: auto (as stored), f32, f16, bf16, int8, int4") +
              (all ? "; with --synthetic also q4_k, int4_g128 and every other type that files store" : ""))
      ->check(all ? generated_weight_type() : weight_type())
      ->type_name("TYPE")
      ->default_str("auto");
  command
      .add_option_function<std::string>(
          "--kv-type", [this](const std::string& name) { options.kv_type = find_kv_type(name); },
          "Type of the KV cache: f32, bf16, int8; auto (f32 with f32 and f16 weights, else bf16)")
      ->check(one_of({"auto", "f32", "bf16", "int8"}))
      ->type_name("TYPE")
      ->default_str("auto");
  command.add_flag("--same-bits", options.same_bits,
                   "Compute the same bits on any number of ranks, in any batch, with any chunks and threads");
  add_split_option(command, options.split, &options.measured_split);
  add_wire_option(command, options.wire);
  command
      .add_option_function<std::string>(
          "--packed-cache", [this](const std::string& folder) { options.packed_cache = folder; },
          "Keep packed weights in this folder, to load faster the next time")
      ->check(not_empty("a folder"))
      ->type_name("DIR");
  command
      .add_option("--threads", options.threads,
                  "Threads per rank (default: OMP_NUM_THREADS, else its share of the cores)")
      ->check(whole_number(1, kMostThreads))
      ->type_name("N");
  command.add_option("--prefill-chunk", options.prefill_chunk, "Maximum prompt tokens per step")
      ->check(whole_number(1, 65536))
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--max-length", options.max_length,
                  "Maximum sequence length in tokens (default: the model's)")
      ->check(whole_number(1))
      ->type_name("N");
  command
      .add_option("--cache-tokens", options.cache_tokens,
                  "KV cache capacity in tokens, reduced if memory is short (default: automatic)")
      ->check(whole_number(1))
      ->type_name("N");
  command
      .add_option("--timeout", timeout,
                  "Abort if a rank waits longer than this for another; on several hosts use at least 15 "
                  "(default: report it and keep waiting)")
      ->check(whole_number(1))
      ->type_name("SECONDS");
  command.add_flag("-v,--verbose", verbose, "Print on stderr what each rank holds");
}

void EngineFlags::add_causal_options_to(CLI::App& command) {
  add_attention_option(command, options.favor_features);
  command
      .add_option(
          "--pipeline", options.pipeline,
          "Divide the layers among this many groups of ranks, which compute different steps at the same time")
      ->check(whole_number(1, 1024))
      ->type_name("STAGES")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--two-batch-overlap",
          [this](const std::string& name) {
            options.two_batch_overlap = name == "on"    ? TwoBatchOverlap::on
                                        : name == "off" ? TwoBatchOverlap::off
                                                        : TwoBatchOverlap::automatic;
          },
          "Compute one half of a step while hosts exchange the sums of the other half: on, off, auto (in "
          "large steps that spend more than a third of their time on the network)")
      ->check(one_of({"auto", "on", "off"}))
      ->type_name("MODE")
      ->default_str("auto");
}

void EngineFlags::add_batch_option_to(CLI::App& command, std::size_t usual) {
  options.max_sequences = usual;
  command.add_option("--max-sequences", options.max_sequences, "Maximum concurrent sequences")
      ->check(whole_number(1, 4096))
      ->type_name("N")
      ->capture_default_str();
}

void EngineFlags::add_unmask_cache_option_to(CLI::App& command) {
  add_unmask_cache_option(command, options.unmask_cache);
}

}  // namespace tp
