#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/generate/sequence_batch.h"
#include "launch/options/model_path.h"
#include "launch/options/text_inputs.h"
#include "launch/ranks/engine_command.h"
#include "model/files/npy.h"
#include "runtime/text/embedder.h"

#include <map>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tp {
namespace {

struct EmbedFlags {
  EngineFlags engine;
  TextInputFlags inputs;
  std::string pooling = "auto";
  std::string prompt_name;
  std::size_t dimensions = 0;  // 0: all
  bool normalize = false;
  bool truncate = false;
  bool json = false;
  std::string output;
};

EmbedOptions options_of(const EmbedFlags& flags) {
  static const std::map<std::string, Pooling> names = {
      {"mean", Pooling::mean}, {"cls", Pooling::first}, {"last", Pooling::last}};
  EmbedOptions options{.through_pooler = flags.pooling == "pooler", .normalize = flags.normalize};
  if (const auto found = names.find(flags.pooling); found != names.end()) options.pooling = found->second;
  return options;
}

std::string json_line(std::size_t index, std::size_t tokens, const std::vector<float>& embedding) {
  return fmt::format("{{\"index\":{},\"tokens\":{},\"embedding\":[{}]}}\n", index, tokens,
                     fmt::join(embedding, ","));
}

void write_npy(const std::string& path, const std::vector<std::vector<float>>& embeddings, std::size_t size) {
  NpyWriter writer(path, embeddings.size(), size);
  for (const std::vector<float>& embedding : embeddings)
    writer.append(TensorView<const float>(embedding.data(), 1, embedding.size()));
  writer.finish();
}

// Writes all embeddings in the order of the inputs.
void write_embeddings(Engine& engine, const EmbedFlags& flags, const std::vector<BatchText>& inputs,
                      ResultOutput* json) {
  const Embedder embedder(engine, find_model(flags.engine.options.model), options_of(flags));
  embedder.require_dimensions(flags.dimensions);
  std::vector<NamedRequest> requests;
  std::vector<std::size_t> tokens;
  for (const BatchText& input : inputs) {
    Request request = encode_input(
        input, [&](const std::string& text) { return embedder.encode(text, flags.prompt_name); });
    if (flags.truncate)
      truncate(request, embedder.max_length(), [&](TokenId id) { return engine.is_special(id); });
    tokens.push_back(request.prompt.size());
    requests.push_back({embedder.ask_for_state(std::move(request)), input.where});
  }
  std::vector<std::vector<float>> embeddings = pooled_states(engine, std::move(requests), "embedding");
  for (std::vector<float>& embedding : embeddings)
    embedding = embedder.embedding(std::move(embedding), flags.dimensions);
  const std::size_t size = flags.dimensions != 0 ? flags.dimensions : embedder.embedding_size();
  if (json == nullptr) return write_npy(flags.output, embeddings, size);
  for (std::size_t i = 0; i < embeddings.size(); ++i) json->write(json_line(i, tokens[i], embeddings[i]));
  json->finish();
}

int run_embed(const CLI::App& command, const EmbedFlags& flags) {
  std::vector<BatchText> inputs;
  std::optional<ResultOutput> json;
  const auto prepare = [&] {
    inputs = flags.inputs.read();
    if (flags.json || flags.output.empty()) json.emplace(flags.output);
  };
  const auto compute = [&](Engine& engine) {
    write_embeddings(engine, flags, inputs, json ? &*json : nullptr);
  };
  return run_engine_command(command, flags.engine, Task::embed, prepare, compute);
}

}  // namespace

// `tp-infer embed`: texts to vectors.
void add_embed_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<EmbedFlags>();
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_causal_options_to(*command);
  flags->engine.add_task_option_to(*command);
  flags->engine.add_batch_option_to(*command, 64);
  flags->inputs.add_to(*command);
  options.add_choice(
      "--pooling", flags->pooling, "NAME", {"auto", "mean", "cls", "last", "pooler"},
      "How the tokens' hidden states become one vector: mean, cls (the first token's), last, pooler (cls "
      "through BERT's pooler), auto (as modules.json says; otherwise mean, or last for decoders)");
  options.add("--prompt-name", flags->prompt_name, "NAME", not_empty("a name"),
              "Prepend this prompt of config_sentence_transformers.json to texts (default: the model's)");
  options.add(
      "--dimensions", flags->dimensions, "N", whole_number(1),
      "Cut vectors to their first N elements and scale them to length 1 (Matryoshka embeddings; default: "
      "the model's size)");
  command->add_flag("--normalize", flags->normalize,
                    "Scale vectors to length 1, even if modules.json doesn't");
  command->add_flag("--truncate", flags->truncate, "Cut texts at the model's maximum length");
  command->add_flag("--json", flags->json, "One JSON object per text, also in the file of --output");
  options.add_file("-o,--output", flags->output,
                   "An .npy file, float32 [texts, size], or with --json JSON lines (default: JSON lines to "
                   "standard output)");
  command->footer(
      "Pooling, dense layers, normalization and prompts come from the files that Sentence Transformers "
      "stores\n"
      "with a model: modules.json, 1_Pooling, 2_Dense, config_sentence_transformers.json.\n"
      "Examples:\n"
      "  mpirun -np 2 tp-infer embed --model DIR --prompt \"A sentence.\" --prompt \"Another one.\"\n"
      "  mpirun -np 2 tp-infer embed --model DIR --batch texts.txt --normalize --output vectors.npy");
  command->callback([flags, command, &status] {
    flags->inputs.require_one();
    status = run_embed(*command, *flags);
  });
}

}  // namespace tp
