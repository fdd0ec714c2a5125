#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/generate/sequence_batch.h"
#include "launch/options/text_inputs.h"
#include "launch/ranks/engine_command.h"
#include "model/files/json_text.h"
#include "runtime/api/rounded.h"
#include "runtime/text/embedder.h"
#include "runtime/text/finite_results.h"
#include "tp/internal/require.h"

#include <array>
#include <cmath>
#include <map>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

struct FillMaskFlags {
  EngineFlags engine;
  TextInputFlags inputs;
  std::optional<TokenId> mask_id;
  int top_k = 5;
  bool json = false;
  std::string output;
};

// Candidates by position.
using Filled = std::map<std::size_t, std::vector<TokenLogprob>>;

TokenId mask_of(const Engine& engine, const FillMaskFlags& flags) {
  if (flags.mask_id) return *flags.mask_id;
  for (const char* name : {"[MASK]", "<mask>"}) {
    if (const std::optional<TokenId> id = engine.find_token(name)) return *id;
  }
  throw_error<RequestError>(
      "cannot find the mask: expected a tokenizer with [MASK] or <mask>, found none; give its id with "
      "--mask-id");
}

std::string word_of(const Engine& engine, TokenId id) {
  return engine.has_tokenizer() ? engine.decode(std::array{id}) : "";
}

std::string filled_text(const Engine& engine, const Filled& filled) {
  std::string text;
  for (const auto& [position, best] : filled) {
    text += fmt::format("position {}:", position);
    for (const TokenLogprob& token : best) {
      const std::string word = word_of(engine, token.id);
      text += fmt::format("  {} {:.4f}", word.empty() ? fmt::format("{}", token.id) : word,
                          std::exp(static_cast<double>(token.logprob)));
    }
    text += "\n";
  }
  return text;
}

std::string filled_json(const Engine& engine, std::size_t index, const Filled& filled) {
  nlohmann::ordered_json object = {{"index", index}, {"masks", nlohmann::ordered_json::array()}};
  for (const auto& [position, best] : filled) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const TokenLogprob& token : best) {
      tokens.push_back(
          {{"id", token.id}, {"probability", rounded(std::exp(static_cast<double>(token.logprob)), 8)}});
      if (engine.has_tokenizer()) tokens.back()["text"] = word_of(engine, token.id);
    }
    object["masks"].push_back({{"position", position}, {"candidates", std::move(tokens)}});
  }
  return json_text(object) + "\n";
}

void fill_masks(Engine& engine, const FillMaskFlags& flags, const std::vector<BatchText>& inputs,
                ResultOutput& output) {
  const TokenId mask = mask_of(engine, flags);
  std::vector<NamedRequest> requests;
  for (const BatchText& input : inputs) {
    Request request =
        encode_input(input, [&](const std::string& text) { return prompt_request(engine.encode(text)); });
    for (std::size_t i = 0; i < request.prompt.size(); ++i) {
      if (request.prompt[i] == mask) request.candidates_at.push_back(i);
    }
    require<RequestError>(!request.candidates_at.empty(),
                          "{}: expected a mask (token {}), found none; put it where you want a word",
                          input.where, mask);
    request.candidates = flags.top_k;
    requests.push_back({std::move(request), input.where});
  }
  std::vector<Filled> filled(requests.size());
  run_sequences(engine, std::move(requests), "filling masks", [&](std::size_t index, const Event& event) {
    const auto* found = std::get_if<PromptCandidates>(&event);
    if (found == nullptr) return;
    if (found->best.empty()) throw Error(not_finite("words for a mask"));
    filled[index][found->position] = found->best;
  });
  for (std::size_t i = 0; i < filled.size(); ++i)
    output.write(flags.json ? filled_json(engine, i, filled[i]) : filled_text(engine, filled[i]));
  output.finish();
}

int run_fill_mask(const CLI::App& command, const FillMaskFlags& flags) {
  std::vector<BatchText> inputs;
  std::optional<ResultOutput> output;
  const auto prepare = [&] {
    inputs = flags.inputs.read();
    output.emplace(flags.output);
  };
  const auto compute = [&](Engine& engine) { fill_masks(engine, flags, inputs, *output); };
  return run_engine_command(command, flags.engine, Task::fill_mask, prepare, compute);
}

}  // namespace

// `tp-infer fill-mask`: the most likely words for masks, from a masked language model.
void add_fill_mask_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<FillMaskFlags>();
  CLI::App* command = app.add_subcommand("fill-mask", "Find the most likely words for masks in texts");
  const OptionGroup options(*command);
  flags->engine.add_to(*command);
  flags->engine.add_batch_option_to(*command, 64);
  flags->inputs.add_to(*command);
  options.add("--top-k", flags->top_k, "K", whole_number(1, 1000), "Number of words for each mask");
  options.add("--mask-id", flags->mask_id, "ID", whole_number(0),
              "The mask's token id (default: the tokenizer's mask)");
  command->add_flag("--json", flags->json, "One JSON object per text");
  add_output_option(*command, flags->output);
  command->footer(
      "The mask is the tokenizer's [MASK] or <mask>.\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer fill-mask --model DIR --prompt \"Paris is the [MASK] of France.\"");
  command->callback([flags, command, &status] {
    flags->inputs.require_one();
    status = run_fill_mask(*command, *flags);
  });
}

}  // namespace tp
