#include "launch/options/engine_flags.h"

#include "launch/common/option_group.h"
#include "launch/options/attention_flag.h"
#include "launch/options/lora_flag.h"
#include "launch/options/split_flag.h"
#include "launch/options/unmasking_flags.h"
#include "launch/options/wire_flag.h"
#include "model/files/parse_number.h"
#include "parallel/machine/processors.h"

#include <cstdint>
#include <string>

namespace tp {
namespace {

void add_kv_slices_option(CLI::App& command, bool& kv_slices) {
  OptionGroup(command).add_choice(
      "--kv-slices", [&](const std::string& name) { kv_slices = name == "on"; }, "MODE", {"on", "off"},
      "Whether the ranks of a host that read the same KV head keep one copy of its cache: on (if they can "
      "share memory), off");
}

}  // namespace

void add_described_options(CLI::App& command, EngineOptions& options) {
  const OptionGroup group(command);
  group.add(
      "-m,--model", [&](const std::string& folder) { options.model = folder; }, "DIR", not_empty("a model"),
      "A checkpoint's folder, which needs only config.json; a GGUF file; a config.json; or ORG/NAME, whose "
      "config.json is fetched from the Hugging Face Hub (default: the demo model)");
  group
      .add(
          "--weights", [&](const std::string& name) { options.weights = find_weight_type(name); }, "TYPE",
          weight_type(), "Type of the weights in memory")
      ->default_str("auto");
  group.add_choice(
      "--kv-type", [&](const std::string& name) { options.kv_type = find_kv_type(name); }, "TYPE",
      {"auto", "f32", "bf16", "int8"}, "Type of the KV cache");
  add_kv_slices_option(command, options.kv_slices);
  add_lora_option(command, options.adapters);
  group.add_flag("--same-bits", options.same_bits, "Plan for runs with --same-bits");
  add_split_option(command, options.split);
  group.add("--prefill-chunk", options.prefill_chunk, "N", whole_number(1, 65536),
            "Maximum prompt tokens per step");
}

void EngineFlags::add_to(CLI::App& command, WeightNames names) {
  const OptionGroup group(command);
  const bool all = names == WeightNames::all;
  group.add(
      "-m,--model", [this](const std::string& folder) { options.model = folder; }, "DIR",
      not_empty("a model"),
      "A folder with config.json, *.safetensors and a tokenizer; a GGUF file; or the name of a "
      "downloaded model, ORG/NAME or ORG/NAME:FILE (default: the demo model)");
  group
      .add(
          "--weights", [this](const std::string& name) { options.weights = find_generated_type(name); },
          "TYPE", all ? generated_weight_type() : weight_type(),
          std::string("Type of the weights in memory: auto (as stored), f32, f16, bf16, int8, int4") +
              (all ? "; with --synthetic also q4_k, int4_g128 and every other type that files store" : ""))
      ->default_str("auto");
  group.add_choice(
      "--kv-type", [this](const std::string& name) { options.kv_type = find_kv_type(name); }, "TYPE",
      {"auto", "f32", "bf16", "int8"},
      "Type of the KV cache: f32, bf16, int8; auto (f32 with f32 and f16 weights, else bf16)");
  add_lora_options(command, options);
  command.add_flag("--same-bits", options.same_bits,
                   "Compute the same bits on any number of ranks, in any batch, with any chunks and threads");
  add_split_option(command, options.split, &options.measured_split);
  add_wire_option(command, options.wire);
  group.add(
      "--packed-cache", [this](const std::string& folder) { options.packed_cache = folder; }, "DIR",
      not_empty("a folder"), "Keep packed weights in this folder, to load faster the next time");
  group.add("--threads", options.threads, "N", whole_number(1, kMaxThreads),
            "Threads per rank (default: OMP_NUM_THREADS, else its share of the cores)");
  group.add("--prefill-chunk", options.prefill_chunk, "N", whole_number(1, 65536),
            "Maximum prompt tokens per step");
  group.add("--max-length", options.max_length, "N", whole_number(1),
            "Maximum sequence length in tokens (default: the model's)");
  group.add("--cache-tokens", options.cache_tokens, "N", whole_number(1),
            "KV cache capacity in tokens, reduced if memory is short (default: automatic)");
  group.add("--timeout", timeout, "SECONDS", whole_number(1),
            "Abort if a rank waits longer than this for another; on several hosts use at least 15 "
            "(default: report it and keep waiting)");
  command.add_flag("-v,--verbose", verbose, "Print on stderr what each rank holds");
}

void EngineFlags::add_causal_options_to(CLI::App& command) {
  const OptionGroup group(command);
  add_attention_option(command, options.favor_features);
  group.add(
      "--pipeline", options.pipeline, "STAGES", whole_number(1, 1024),
      "Divide the layers among this many groups of ranks, which compute different steps at the same time");
  group.add_choice(
      "--two-batch-overlap",
      [this](const std::string& name) {
        options.two_batch_overlap = name == "on"    ? TwoBatchOverlap::on
                                    : name == "off" ? TwoBatchOverlap::off
                                                    : TwoBatchOverlap::automatic;
      },
      "MODE", {"auto", "on", "off"},
      "Compute one half of a step while hosts exchange the sums of the other half: on, off, auto (in "
      "large steps that spend more than a third of their time on the network)");
  add_kv_slices_option(command, options.kv_slices);
}

void EngineFlags::add_task_option_to(CLI::App& command) {
  OptionGroup(command).add("--task", options.task, "NAME", not_empty("a task"),
                           "The task of a model that has several: rank (a decoder whose answers yes and no "
                           "rank documents), or the "
                           "name of an adapter that is stored with the weights (retrieval.query)");
}

void EngineFlags::add_store_options_to(CLI::App& command) {
  const OptionGroup group(command);
  CLI::Option* const store = group.add(
      "--kv-store", [this](const std::string& folder) { options.kv_store = folder; }, "DIR",
      not_empty("a folder"),
      "Store the keys and values of long prompts in this folder, and read them instead of computing them");
  group
      .add(
          "--kv-store-size",
          [this](const std::string& gigabytes) {
            options.kv_store_size =
                static_cast<std::uint64_t>(1e9 * parse_number<double>(gigabytes).value_or(0.0));
          },
          "GB", gigabytes(),
          "Maximum size of the folder; the least recently used prompts are removed (default: as when the "
          "folder was created; for a new folder, 20 or a tenth of the disk, whichever is smaller)")
      ->needs(store);
  group
      .add("--kv-store-min", options.kv_store_min, "N", whole_number(1),
           "Store only prompts of at least this many tokens")
      ->needs(store);
}

void EngineFlags::add_batch_option_to(CLI::App& command, std::size_t usual) {
  options.max_sequences = usual;
  OptionGroup(command).add("--max-sequences", options.max_sequences, "N", whole_number(1, 4096),
                           "Maximum concurrent sequences");
}

void EngineFlags::add_unmask_cache_option_to(CLI::App& command) {
  add_unmask_cache_option(command, options.unmask_cache);
}

}  // namespace tp
