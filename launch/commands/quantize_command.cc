#include "launch/commands/subcommands.h"
#include "launch/common/interruptions.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/common/progress.h"
#include "launch/common/progress_line.h"
#include "launch/common/result_output.h"
#include "launch/options/lora_flag.h"
#include "launch/options/model_path.h"
#include "launch/ranks/on_first_rank.h"
#include "model/files/json_text.h"
#include "model/quantize/quantize_model.h"
#include "model/quantize/type_choice.h"
#include "parallel/machine/processors.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/text/format_bytes.h"
#include "tp/internal/require.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr const char* kQuantizeExamples =
    R"(Types: f32, f16, bf16; int8 (Q8_0) and int4 (Q4_0), groups of 32 with a scale; q2_k to q6_k; q4_k_m and
q5_k_m, llama.cpp's mixes, which give the most sensitive matrices Q6_K; others that llama.cpp knows. Norms and
biases stay f32, and the LM head gets Q6_K where other matrices have fewer bits.
Examples:
  tp-infer quantize --model DIR --weights q4_k_m --output model-q4_k_m.gguf
  tp-infer quantize --model ORG/NAME --weights int8 --output model-int8.gguf
  tp-infer quantize --model DIR --lora NAME=ADAPTER --weights bf16 --output merged-bf16.gguf
  tp-infer quantize --model model-bf16.gguf --weights q6_k --output model-q6_k.gguf --force
  mpirun -np 2 tp-infer generate --model model-q4_k_m.gguf --prompt "Once upon a time"
)";

struct QuantizeFlags {
  std::string model;
  std::string weights;
  std::string output;
  std::vector<AdapterOptions> adapters;
  bool force = false;
  std::size_t threads = 0;
  bool json = false;
};

void require_free_name(const QuantizeFlags& flags) {
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(flags.output, error).type();
  if (type == std::filesystem::file_type::not_found) return;
  require<RequestError>(
      type == std::filesystem::file_type::regular,
      "cannot write {}: expected a file, found something else with this name; give another --output",
      flags.output);
  require<RequestError>(flags.force,
                        "cannot write {}: expected an unused name, found a file; give --force to replace it, "
                        "or another --output",
                        flags.output);
}

// Returns the model's name: "llama" for "models/llama/", "NAME" for "ORG/NAME".
std::string name_of_model(const std::string& given) {
  const std::filesystem::path path(given);
  return path.has_filename() ? path.stem().string() : path.parent_path().filename().string();
}

double bits_per_weight(const QuantizeReport& report) {
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const QuantizedTensors& type : report.types) {
    elements += type.elements;
    bytes += type.bytes;
  }
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(1, elements));
}

std::string summary(const QuantizeReport& report, const QuantizeFlags& flags, double seconds) {
  std::string text =
      fmt::format("{}: {}, {:.2f} bits per weight, written in {}\n", flags.output,
                  format_bytes(report.file_bytes), bits_per_weight(report), format_duration(seconds));
  for (const QuantizedTensors& type : report.types)
    text += fmt::format("  {:<7} {:>6} tensors  {:>10}\n", type.type, type.tensors, format_bytes(type.bytes));
  return text;
}

std::string summary_json(const QuantizeReport& report, const QuantizeFlags& flags, double seconds) {
  nlohmann::json types = nlohmann::json::array();
  for (const QuantizedTensors& type : report.types)
    types.push_back(
        {{"type", type.type}, {"tensors", type.tensors}, {"elements", type.elements}, {"bytes", type.bytes}});
  const nlohmann::json written = {{"path", flags.output},
                                  {"bytes", report.file_bytes},
                                  {"bits_per_weight", bits_per_weight(report)},
                                  {"seconds", seconds},
                                  {"types", types}};
  return json_text(written, 2) + "\n";
}

QuantizeReport quantize(const QuantizeFlags& flags, const std::filesystem::path& model) {
  const Interruptions interruptions;
  ProgressBar bar("quantizing");
  return quantize_model(
      {.model = model,
       .name = name_of_model(flags.model),
       .weights = flags.weights,
       .output = flags.output,
       .adapters = flags.adapters},
      [&](std::uint64_t done, std::uint64_t all) {
        require<Error>(!Interruptions::take(),
                       "cannot write {}: expected to run to the end, found an interruption; the unfinished "
                       "file is removed; start again",
                       flags.output);
        bar.update(static_cast<double>(done) / static_cast<double>(all),
                   fmt::format(", {:.1f} of {:.1f} G weights", static_cast<double>(done) * 1e-9,
                               static_cast<double>(all) * 1e-9));
      });
}

void run(const QuantizeFlags& flags) {
  const std::filesystem::path model = find_model(flags.model);
  require_free_name(flags);
  set_threads(flags.threads == 0 ? default_threads_of(1) : flags.threads);
  const Stopwatch watch;
  const QuantizeReport report = quantize(flags, model);
  for (const std::string& notice : report.notices) print_message("tp-infer: " + notice);
  ResultOutput output;
  output.write(flags.json ? summary_json(report, flags, watch.seconds())
                          : summary(report, flags, watch.seconds()));
  output.finish();
}

CLI::Validator gguf_name() {
  const auto check = [](std::string& text) -> std::string {
    return text.ends_with(".gguf") ? ""
                                   : fmt::format("expected a name that ends in .gguf, found \"{}\"", text);
  };
  return CLI::Validator(check, "");
}

}  // namespace

// `tp-infer quantize`: a checkpoint as a GGUF file.
void add_quantize_command(CLI::App& app, int& /*status*/) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = app.add_subcommand("quantize", "Write a model as a GGUF file of quantized weights");
  const OptionGroup options(*command);
  options
      .add("-m,--model", flags->model, "DIR", not_empty("a model"),
           "A folder with config.json, *.safetensors and a tokenizer; a GGUF file; or the name of a "
           "downloaded model")
      ->required();
  options
      .add("--weights", flags->weights, "TYPE", one_of(TypeChoice::names()), "Type of the weights, see below")
      ->required();
  options
      .add("-o,--output", flags->output, "FILE.gguf", gguf_name(),
           "File to write; it appears once it is complete")
      ->required();
  add_lora_option(*command, flags->adapters);
  command->add_flag("--force", flags->force, "Replace an existing file");
  options.add("--threads", flags->threads, "N", whole_number(1, kMaxThreads),
              "Threads (default: OMP_NUM_THREADS, else one per core that the process may use)");
  command->add_flag("--json", flags->json, "Print the summary as JSON");
  command->footer(kQuantizeExamples);
  command->callback(on_first_rank(*command, [flags] { run(*flags); }));
}

}  // namespace tp
