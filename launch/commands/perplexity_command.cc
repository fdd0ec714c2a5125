#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/progress.h"
#include "launch/common/result_output.h"
#include "launch/options/prompts.h"
#include "launch/perplexity/llama_cpp_protocol.h"
#include "launch/ranks/open_engine.h"
#include "launch/ranks/rank_program.h"
#include "model/files/json_text.h"
#include "model/tokenizer/text/utf8.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/api/rounded.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Longer contexts predict better, but their attention is slower.
constexpr std::size_t kDefaultWindow = 2048;

struct PerplexityFlags {
  EngineFlags engine;
  std::string text_file;
  std::string token_file;
  bool is_llama_cpp = false;
  LlamaCppOptions llama_cpp;
  std::size_t window = 0;  // tokens; 0: the model's positions, up to kDefaultWindow
  std::size_t stride = 0;  // tokens; 0: half of the window
  bool json = false;
  std::string output;

  // Whether the text comes from a base file.
  bool compares() const { return !llama_cpp.base.empty() && text_file.empty() && token_file.empty(); }
};

// The measured text or tokens.
struct Material {
  std::string name;                   // name of the file
  std::optional<std::string> text{};  // null if ids are given
  std::optional<std::vector<TokenId>> ids{};
};

// A step of the sliding window: the tokens [scored_from, end) are predicted from earlier tokens in [begin,
// end).
struct Window {
  std::size_t begin;
  std::size_t scored_from;
  std::size_t end;
};

struct Result {
  double nll = 0.0;                    // sum of the negative logarithms of the tokens' probabilities
  std::size_t tokens = 0;              // scored tokens
  std::size_t computed = 0;            // computed tokens, including the contexts'
  std::optional<std::size_t> bytes{};  // bytes of the scored tokens' text; unknown without a tokenizer
  std::size_t windows = 0;
  double seconds = 0.0;

  double nll_per_token() const { return nll / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(nll_per_token()); }
  double tokens_per_second() const { return static_cast<double>(computed) / seconds; }
  std::optional<double> bits_per_byte() const {
    if (!bytes || *bytes == 0) return std::nullopt;
    return nll / std::log(2.0) / static_cast<double>(*bytes);
  }
};

// Rank 0 only. Throws RequestError.
Material read_material(const PerplexityFlags& flags) {
  if (flags.compares()) return {.name = flags.llama_cpp.base};
  if (!flags.token_file.empty()) return {.name = flags.token_file, .ids = read_token_file(flags.token_file)};
  std::string text = read_prompt_file(flags.text_file);
  require<RequestError>(!text.empty(), "{}: the file is empty; expected a text to measure", flags.text_file);
  const std::size_t broken = utf8::valid_length(text);
  require<RequestError>(broken == text.size(),
                        "{}: byte {} is not UTF-8; expected a text in UTF-8; convert the file",
                        flags.text_file, broken);
  return {.name = flags.text_file, .text = std::move(text)};
}

// Divides a text into windows. Every token except the first is in [scored_from, end) of exactly one window. A
// window scores `stride` tokens, so each has at least window - stride earlier tokens, if the text has as
// many.
std::vector<Window> slide(std::size_t tokens, std::size_t window, std::size_t stride) {
  std::vector<Window> windows;
  for (std::size_t begin = 0, done = 1; done < tokens; begin += stride) {
    const std::size_t end = std::min(begin + window, tokens);
    windows.push_back({begin, done, end});
    done = end;
  }
  return windows;
}

// Fills in missing options. Throws RequestError.
void choose_window(PerplexityFlags& flags, const EngineInfo& info) {
  if (flags.window == 0) flags.window = std::min(kDefaultWindow, info.options.max_length);
  if (flags.stride == 0) flags.stride = std::max<std::size_t>(1, flags.window / 2);
  require<RequestError>(flags.window <= info.options.max_length,
                        "a window of {} tokens is longer than the {} of a sequence (max_position_embeddings, "
                        "or --max-length); give a smaller --window",
                        flags.window, info.options.max_length);
  require<RequestError>(flags.stride < flags.window,
                        "with a stride of {} tokens, the first tokens of a window of {} have no context; "
                        "give a --stride that is smaller than the --window",
                        flags.stride, flags.window);
}

// Returns the bytes of the scored tokens' text. The first token is not scored; it may be a control token
// without a text.
std::optional<std::size_t> scored_bytes(const Engine& engine, const Material& material,
                                        const std::vector<TokenId>& tokens) {
  if (!engine.has_tokenizer()) return std::nullopt;
  const std::size_t all = (material.text ? *material.text : engine.decode(tokens)).size();
  return all - std::min(all, engine.decode(std::span(tokens).first(1)).size());
}

Result measure(Engine& engine, const PerplexityFlags& flags, const Material& material) {
  const std::vector<TokenId> tokens = material.ids ? *material.ids : engine.encode(*material.text);
  require<RequestError>(
      tokens.size() >= 2,
      "{}: {} token{}; expected at least 2, because each token is predicted from earlier ones", material.name,
      tokens.size(), tokens.size() == 1 ? "" : "s");
  Result result;
  result.tokens = tokens.size() - 1;
  const Stopwatch watch;
  ProgressBar bar("measuring perplexity");
  for (const auto& [begin, scored_from, end] : slide(tokens.size(), flags.window, flags.stride)) {
    const auto window = std::span(tokens).subspan(begin, end - begin);
    for (const double logprob : engine.logprobs(window, scored_from - begin)) result.nll -= logprob;
    result.windows += 1;
    result.computed += window.size() - 1;
    bar.update(static_cast<double>(end) / static_cast<double>(tokens.size()));
  }
  result.seconds = watch.seconds();
  result.bytes = scored_bytes(engine, material, tokens);
  return result;
}

std::string json_of(const Result& result, const PerplexityFlags& flags, const EngineInfo& info,
                    std::size_t ranks) {
  nlohmann::json object = {{"perplexity", rounded(result.perplexity(), 8)},
                           {"nll_per_token", rounded(result.nll_per_token(), 8)},
                           {"bits_per_byte", nullptr},
                           {"tokens", result.tokens},
                           {"bytes", nullptr},
                           {"windows", result.windows},
                           {"window", flags.window},
                           {"stride", flags.stride},
                           {"weights", name_of(info.weights)},
                           {"kv_type", name_of(*info.options.kv_type)},
                           {"ranks", ranks},
                           {"seconds", rounded(result.seconds)},
                           {"tokens_per_s", rounded(result.tokens_per_second())}};
  if (result.bytes) object["bytes"] = *result.bytes;
  if (const auto bits = result.bits_per_byte()) object["bits_per_byte"] = rounded(*bits, 8);
  return json_text(object) + "\n";
}

std::string describe_result(const Result& result, const PerplexityFlags& flags, const EngineInfo& info) {
  std::string text = fmt::format("perplexity     {:.4f}\nnats per token {:.5f}\n", result.perplexity(),
                                 result.nll_per_token());
  if (const auto bits = result.bits_per_byte()) text += fmt::format("bits per byte  {:.5f}\n", *bits);
  return text + fmt::format(
                    "tokens         {}, in {} windows of {} with stride {}\n"
                    "speed          {:.1f} tokens/s, the windows' contexts included; weights in {}, keys and "
                    "values in {}\n",
                    result.tokens, result.windows, flags.window, flags.stride, result.tokens_per_second(),
                    name_of(info.weights), name_of(*info.options.kv_type));
}

int lead(Engine& engine, PerplexityFlags flags, const Material& material, std::size_t ranks,
         ResultOutput& output) {
  if (flags.is_llama_cpp) {
    const LlamaCppResult result =
        flags.compares() ? compare_with_base(engine, flags.llama_cpp)
        : material.ids
            ? measure_chunks(engine, flags.llama_cpp, *material.ids, material.name)
            : measure_chunks(engine, flags.llama_cpp, ids_of_text(engine, *material.text), material.name);
    output.write(flags.json ? json_of(result, engine.info(), ranks) : format_llama_cpp(result));
  } else {
    choose_window(flags, engine.info());
    const Result result = measure(engine, flags, material);
    output.write(flags.json ? json_of(result, flags, engine.info(), ranks)
                            : describe_result(result, flags, engine.info()));
  }
  output.finish();
  return 0;
}

// Finds mistakes before the model is loaded. Throws Error.
void check_base(const PerplexityFlags& flags) {
  const std::string& base = flags.llama_cpp.base;
  if (base.empty()) return;
  if (flags.compares()) {
    const BaseReader readable(base);
    return;
  }
  require<RequestError>(
      !std::filesystem::is_regular_file(base),
      "--kl-base: {} exists; leave --file and --tokens out to compare with it, or remove it", base);
}

int run_perplexity(const CLI::App& command, const PerplexityFlags& flags) {
  return run_on_ranks(CommandLine::of(command), flags.engine.timeout, [&](Communicator& comm) {
    Material material;
    std::optional<ResultOutput> output;
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      check_base(flags);
      material = read_material(flags);
      output.emplace(flags.output);
    });
    const std::unique_ptr<Engine> engine = open_engine(comm, flags.engine, Task::score);
    return lead_or_follow(comm, *engine, flags.engine.verbose,
                          [&] { return lead(*engine, flags, material, comm.size(), *output); });
  });
}

// Chooses the protocol by the options that only one of them has.
void choose_protocol(const CLI::App& command, PerplexityFlags& flags) {
  const bool is_chosen = command.count("--protocol") > 0;
  for (const char* name : {"--context", "--chunks", "--kl-base"}) {
    const bool is_given = command.count(name) > 0;
    require<CLI::ValidationError>(!is_given || !is_chosen || flags.is_llama_cpp,
                                  "{}: expected --protocol llama.cpp with it, found windows", name);
    flags.is_llama_cpp = flags.is_llama_cpp || is_given;
  }
  for (const char* name : {"--window", "--stride"}) {
    require<CLI::ValidationError>(!flags.is_llama_cpp || command.count(name) == 0,
                                  "{}: expected --protocol windows, found llama.cpp; give --context", name);
  }
}

void check_input(const CLI::App& command, const PerplexityFlags& flags) {
  require<CLI::ValidationError>(!flags.compares() || command.count("--context") == 0,
                                "--context: the file of --kl-base determines it; leave it out");
  const bool has_none = flags.text_file.empty() && flags.token_file.empty();
  if (has_none && flags.compares()) return;
  require<CLI::ValidationError>(
      flags.text_file.empty() != flags.token_file.empty(),
      "expected either --file FILE or --tokens FILE, found {}; give one text to measure",
      has_none ? "neither" : "both");
}

}  // namespace

// `tp-infer perplexity`: how well a model predicts a text.
void add_perplexity_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_causal_options_to(*command);
  const OptionGroup input(*command, "Input (one of them; FILE may be - for standard input)");
  input.add_file("--file", flags->text_file, "A text file in UTF-8");
  input.add_file("--tokens", flags->token_file, "A JSON file: a list of token ids, or an object with `ids`");
  options.add("--window", flags->window, "N", whole_number(2),
              "Window size in tokens (default: the maximum sequence length, at most 2048)");
  options.add("--stride", flags->stride, "N", whole_number(1),
              "Stride in tokens, less than --window (default: half of it)");
  const OptionGroup peer(*command, "Numbers that compare with llama.cpp's");
  peer.add(
      "--protocol",
      [flags = flags.get()](const std::string& name) { flags->is_llama_cpp = name == "llama.cpp"; }, "NAME",
      one_of({"windows", "llama.cpp"}),
      "How the text is divided: windows (as below), or llama.cpp (as llama-perplexity does)");
  peer.add("--context", flags->llama_cpp.context, "N", whole_number(4),
           "Tokens of a chunk (llama-perplexity's --ctx-size)");
  peer.add("--chunks", flags->llama_cpp.chunks, "N", whole_number(1), "Measure only the first N chunks");
  peer.add(
      "--kl-base", flags->llama_cpp.base, "FILE", CLI::Validator(),
      "With a text, write this model's predictions of it; without, compare the model with those in the file");
  command->add_flag("--json", flags->json, "One JSON object");
  add_output_option(*command, flags->output);
  command->footer(
      "The window slides over the text. Each token is predicted once, from the tokens before it in the "
      "window:\n"
      "at least window - stride of them, except at the text's beginning. The control tokens that begin the\n"
      "model's prompts (BOS) come before the text and are not scored. If there are none, the text's first\n"
      "token is not scored. Nothing is added to token ids. Bits per byte compare models with different\n"
      "vocabularies.\n"
      "With --protocol llama.cpp, the text is cut into chunks of --context tokens. If the model's prompts\n"
      "begin with BOS, it takes the place of each chunk's first token. The tokens of a chunk's second half "
      "are\n"
      "scored. --kl-base reads and writes llama-perplexity's base file, which contains the text.\n"
      "Examples:\n"
      "  mpirun -np 4 tp-infer perplexity --model DIR --file text.txt\n"
      "  mpirun -np 4 tp-infer perplexity --model DIR --file text.txt --weights int4 --window 1024 --stride "
      "512 --json\n"
      "  mpirun -np 4 tp-infer perplexity --model DIR --file text.txt --context 512 --kl-base "
      "base.kld\n"
      "  mpirun -np 4 tp-infer perplexity --model DIR --weights int4 --kl-base base.kld");
  command->callback([flags, command, &status] {
    choose_protocol(*command, *flags);
    check_input(*command, *flags);
    status = run_perplexity(*command, *flags);
  });
}

}  // namespace tp
