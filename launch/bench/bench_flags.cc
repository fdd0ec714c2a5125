#include "launch/bench/bench_flags.h"

#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/common/trace_file.h"
#include "launch/options/speculate_flag.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

constexpr const char* kBenchFooter =
    "If the model's maximum sequence length is short, the defaults of --prompt and --generate are "
    "reduced.\n"
    "A decode row measures the steps in which all sequences generate.\n"
    "`collective` is the share of time in all-reduces, and `waiting` the share of waiting for slower "
    "ranks;\n"
    "both are averages over the ranks. `of streaming` is the rate at which weights and cache are read, as "
    "a\n"
    "fraction of the peak memory bandwidth with the same ranks and threads; it counts only the experts "
    "that\n"
    "tokens are routed to, if all are equally likely. `of arithmetic` is the rate of multiplications and\n"
    "additions, as a fraction of the peak in registers. Each peak is the mean of one measurement before a\n"
    "row's runs and one after them. `spread` is the difference between the fastest and the slowest run.\n"
    "`over` marks a rate above the measured peak, which makes the peak meaningless; a line below has the\n"
    "numbers, and JSON lists the rates in `peaks_exceeded`.\n"
    "Examples:\n"
    "  mpirun -np 2 tp-infer bench --model DIR --prompt 512 --generate 64 --batch 1,16\n"
    "  mpirun -np 2 tp-infer bench --synthetic bench/shapes/llama-1b.json --repeat 5 --markdown\n"
    "  mpirun -np 2 tp-infer bench --synthetic bench/shapes/llama-1b.json --weights q4_k --batch 1,16\n"
    "  tp-infer bench --synthetic bench/shapes/llama-1b.json --pretend-ranks 16\n"
    "  tp-infer bench --synthetic bench/shapes/llama-1b.json --weights int4 --acceptance-trace \\\n    "
    "bench/texts.jsonl --repeat 5";

}  // namespace

BenchFormat BenchFlags::format() const {
  if (json) return BenchFormat::json;
  if (csv) return BenchFormat::csv;
  return markdown ? BenchFormat::markdown : BenchFormat::table;
}

SamplingParams BenchFlags::chosen_by() const {
  SamplingParams chosen = sampling;
  const bool draws = sampling.top_k > 0 || sampling.top_p < 1.0F;
  chosen.temperature = temperature.value_or(draws ? 1.0F : 0.0F);
  chosen.seed = 1;
  return chosen;
}

void add_bench_options(CLI::App& command, BenchFlags& flags) {
  const OptionGroup options(command);
  flags.engine.add_to(command, WeightNames::all);
  flags.engine.add_causal_options_to(command);
  flags.engine.add_store_options_to(command);
  flags.engine.add_unmask_cache_option_to(command);
  add_speculate_option(command, flags.engine.options.speculation);
  options.add_file("--synthetic", flags.synthetic,
                   "Generate random weights for the shapes of this config.json, without a checkpoint");
  options.add_list("--prompt", flags.prompts, "N", whole_number(1, 1 << 24),
                   "Prompt length in tokens, or a list: 128,512");
  options.add("--generate", flags.generate, "N", whole_number(0, 1 << 24),
              "Tokens to generate; 0 measures prefill only");
  options.add_list("--batch", flags.batches, "N", whole_number(1, 4096),
                   "Concurrent sequences, or a list: 1,16");
  command.add_flag("--constraint", flags.constraint,
                   "Also decode with a JSON Schema for each sequence; needs the model's tokenizer");
  options.add_file(
      "--acceptance-trace", flags.acceptance_trace,
      "A file with texts, one JSON object per line: \"name\", \"prompt_ids\", \"token_ids\", "
      "optionally \"sampling\" as in the output of generate --json. Decode as many tokens without "
      "draft tokens and with them, and accept as many drafts as these texts would");
  options.add(
      "--repeat", flags.repeat, "N", whole_number(1, 1000),
      "Runs per row; the row shows their median. If N is above 1, an additional warm-up run comes first "
      "and is not counted");
  options.add("--temperature", flags.temperature, "T", number(),
              "Sample with this temperature instead of taking the most likely token");
  options.add("--top-k", flags.sampling.top_k, "K", whole_number(0, 1 << 30),
              "Sample among the K most likely tokens");
  options.add("--top-p", flags.sampling.top_p, "P", number(),
              "Sample from the smallest set of tokens with cumulative probability P");
  options.add("--pretend-ranks", flags.engine.options.pretend_ranks, "N", whole_number(1, 4096),
              "Do the work that the first ranks would have in a job of N ranks; the tokens are meaningless");
  command.add_flag("--json", flags.json, "One JSON object per row");
  command.add_flag("--csv", flags.csv, "Comma-separated values, with a header");
  command.add_flag("--markdown", flags.markdown, "A table in Markdown");
  add_output_option(command, flags.output);
  add_trace_option(command, flags.trace);
  command.footer(kBenchFooter);
}

void check_bench_options(const CLI::App& command, BenchFlags& flags) {
  flags.has_prompts = command.get_option("--prompt")->count() > 0;
  flags.has_generate = command.get_option("--generate")->count() > 0;
  require<CLI::ValidationError>(
      int{flags.json} + int{flags.csv} + int{flags.markdown} <= 1,
      "--json, --csv and --markdown are formats of the result: expected at most one, found several; run "
      "bench once for each, or convert its JSON");
  const bool replays = !flags.acceptance_trace.empty();
  require<CLI::ValidationError>(
      !replays || !(flags.has_prompts || flags.has_generate || flags.constraint),
      "--acceptance-trace takes the lengths from its texts and has no constraints: expected none of "
      "--prompt, --generate and --constraint with it, found some; leave them out");
  require<CLI::ValidationError>(
      !replays || flags.engine.options.speculation.drafts != DraftKind::mtp,
      "--acceptance-trace replays texts of another model: expected draft tokens that don't need that "
      "model's hidden states, found --speculate mtp; use ngram or draft:DIR");
  require<CLI::ValidationError>(
      flags.synthetic.empty() || flags.engine.options.model.empty(),
      "--synthetic generates weights, but --model names a checkpoint; leave out one of them");
  const std::optional<WeightType> type = flags.engine.options.weights;
  require<CLI::ValidationError>(
      !type || is_convertible(*type) || !flags.synthetic.empty(),
      "--weights: expected a type to which weights can be converted, found {0}; files that store {0} "
      "weights keep it with auto, and --synthetic generates such weights",
      type ? name_of(*type) : "");
  require_valid(flags.chosen_by());
}

}  // namespace tp
