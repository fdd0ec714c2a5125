#include "launch/engine_flags.h"

#include "launch/message.h"
#include "launch/model_path.h"
#include "launch/option_checks.h"
#include "launch/option_names.h"
#include "launch/progress.h"
#include "launch/table.h"
#include "launch/version_text.h"
#include "model/kernels/isa.h"
#include "model/weights/checkpoint/printable.h"
#include "parallel/binding.h"
#include "parallel/fail_together.h"
#include "parallel/mpi_session.h"
#include "parallel/processors.h"
#include "runtime/text/format_bytes.h"
#include "tp/error.h"

#include <fmt/ranges.h>

namespace tp {

void EngineFlags::add_to(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "-m,--model", [this](const std::string& folder) { options.model = folder; },
          "A GGUF file, or a folder with config.json, *.safetensors and a tokenizer (default: the demo "
          "model)")
      ->check(not_empty("a model"))
      ->type_name("DIR");
  command
      .add_option_function<std::string>(
          "--weights", [this](const std::string& name) { options.weights = find_weight_type(name); },
          "In-memory weight type: auto (as stored), f32, f16, bf16, int8, int4")
      ->check(one_of({"auto", "f32", "f16", "bf16", "int8", "int4"}))
      ->type_name("TYPE")
      ->default_str("auto");
  command
      .add_option_function<std::string>(
          "--kv-type", [this](const std::string& name) { options.kv_type = find_kv_type(name); },
          "KV cache type: f32, bf16, int8; auto (f32 with f32 and f16 weights, else bf16)")
      ->check(one_of({"auto", "f32", "bf16", "int8"}))
      ->type_name("TYPE")
      ->default_str("auto");
  command
      .add_option("--threads", options.threads,
                  "Threads per rank (default: OMP_NUM_THREADS, else its share of the cores)")
      ->check(whole_number(1, kMostThreads))
      ->type_name("N");
  command.add_option("--prefill-chunk", options.prefill_chunk, "Maximum prompt tokens per step")
      ->check(whole_number(1, 65536))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--max-batch", options.max_sequences, "Maximum concurrent sequences")
      ->check(whole_number(1, 4096))
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
                  "Abort if a rank waits longer than this for another (default: report it and keep waiting)")
      ->check(whole_number(1))
      ->type_name("SECONDS");
  command.add_flag("-v,--verbose", verbose, "Print what every rank holds, on stderr");
}

std::unique_ptr<Engine> open_engine(Communicator& comm, const EngineFlags& flags) {
  EngineOptions options = flags.options;
  fail_together(comm, [&] {
    if (!options.synthetic) options.model = find_model(options.model);
    if (options.threads == 0) options.threads = default_threads(comm.local_size());
  });
  if (!comm.is_root()) return std::make_unique<Engine>(comm, options);
  std::unique_ptr<Engine> engine;
  {
    const std::string name = std::filesystem::path(options.model / "").parent_path().filename().string();
    ProgressBar bar(fmt::format("loading {}", printable(name)));
    engine = std::make_unique<Engine>(comm, options, [&](double fraction) { bar.update(fraction); });
  }
  if (!engine->info().rounded.empty()) {
    print_message(fmt::format("tp-infer: weights are rounded: {}; --weights int8 takes half the memory",
                              engine->info().rounded));
  }
  if (!engine->info().unused_tensors.empty()) {
    print_message(fmt::format("tp-infer: the checkpoint has tensors that the model does not use: {}",
                              fmt::join(engine->info().unused_tensors, ", ")));
  }
  if (!engine->info().cache_notice.empty())
    print_message(fmt::format("tp-infer: {}", with_flags(engine->info().cache_notice)));
  if (flags.options.max_length > engine->info().max_length) {
    print_note(fmt::format(
        "tp-infer: sequences have at most {} tokens, the model's maximum, not the {} of --max-length\n",
        engine->info().max_length, flags.options.max_length));
  }
  const std::size_t threads = engine->info().threads;
  if (threads > allowed_processors()) {
    print_note(
        fmt::format("tp-infer: {} threads per rank on {} of {} processors: oversubscribed; if mpirun has "
                    "bound it, give mpirun --bind-to none or --map-by slot:PE={}\n",
                    threads, allowed_processors(), online_processors(), threads));
  }
  if (flags.verbose) print_rank_map(*engine);
  if (flags.verbose && !comm.not_shared_because().empty())
    print_note(
        fmt::format("all-reduces use MPI messages, not shared memory: {}\n", comm.not_shared_because()));
  return engine;
}

void print_rank_map(Engine& engine) {
  const EngineInfo& info = engine.info();
  print_note(fmt::format("{} on {}, kernels {}\n", version_text(), mpi_library(),
                         kernels::name_of(kernels::active_isa())));
  print_note(fmt::format(
      "{}, {} parameters, loaded in {:.2f} s; cache of {} tokens, sequences of at most {}\n",
      info.config.architecture, info.parameters, info.load_seconds, info.cache_tokens, info.max_length));
  if (const auto& widened = widen_default_binding()) {
    print_note(
        fmt::format("mpirun bound each rank to {} of the host's cores by default; each now has its share, {} "
                    "(--bind-to core keeps the binding)\n",
                    widened->from, widened->to));
  }
  Table table({"rank", "host", "cores", "threads", "read", "weights", "cache", "workspace", "peak RSS"});
  std::size_t rank = 0;
  std::size_t read = 0;
  for (const RankReport& report : engine.reports()) {
    table.add({fmt::to_string(rank++), report.host, fmt::to_string(report.cores),
               fmt::to_string(report.threads), format_bytes(report.bytes_read),
               format_bytes(report.weight_bytes), format_bytes(report.cache_bytes),
               format_bytes(report.workspace_bytes), format_bytes(report.peak_resident_bytes)});
    read += report.bytes_read;
  }
  print_note(fmt::format("{}", table.text()));
  if (info.stored_bytes != 0) {
    print_note(fmt::format("all ranks read {:.3f} x the checkpoint's {}\n",
                           static_cast<double>(read) / static_cast<double>(info.stored_bytes),
                           format_bytes(info.stored_bytes)));
  }
}

}  // namespace tp
