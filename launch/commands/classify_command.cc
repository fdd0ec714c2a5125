#include "launch/commands/subcommands.h"
#include "launch/common/result_output.h"
#include "launch/generate/sequence_batch.h"
#include "launch/options/text_inputs.h"
#include "launch/ranks/engine_command.h"
#include "model/files/json_text.h"
#include "runtime/api/rounded.h"
#include "runtime/text/embedder.h"
#include "runtime/text/probabilities.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

struct ClassifyFlags {
  EngineFlags engine;
  TextInputFlags inputs;
  bool json = false;
  std::string output;
};

// Returns one text's labels, the most likely one first.
std::string classes_text(const std::vector<std::string>& labels, const std::vector<double>& probabilities) {
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return probabilities[i]; });
  std::string text;
  for (const std::size_t label : order)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : "  ", labels[label], probabilities[label]);
  return text + "\n";
}

std::string classes_json(std::size_t index, const std::vector<std::string>& labels,
                         const std::vector<float>& scores, const std::vector<double>& probabilities) {
  const auto best = std::ranges::max_element(probabilities) - probabilities.begin();
  nlohmann::ordered_json object = {{"index", index}, {"label", labels[static_cast<std::size_t>(best)]}};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    object["scores"].push_back({{"label", labels[i]},
                                {"score", rounded(scores[i], 8)},
                                {"probability", rounded(probabilities[i], 8)}});
  }
  return json_text(object) + "\n";
}

void classify(Engine& engine, const ClassifyFlags& flags, const std::vector<BatchText>& inputs,
              ResultOutput& output) {
  std::vector<NamedRequest> requests;
  for (const BatchText& input : inputs) {
    const auto encode = [&](const std::string& text) { return prompt_request(engine.encode(text)); };
    requests.push_back({encode_input(input, encode), input.where});
  }
  const std::vector<std::vector<float>> scores = label_scores(engine, std::move(requests), "classifying");
  const std::vector<std::string>& labels = engine.info().config.labels;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<double> probabilities = probabilities_of(scores[i]);
    output.write(flags.json ? classes_json(i, labels, scores[i], probabilities)
                            : classes_text(labels, probabilities));
  }
  output.finish();
}

int run_classify(const CLI::App& command, const ClassifyFlags& flags) {
  std::vector<BatchText> inputs;
  std::optional<ResultOutput> output;
  const auto prepare = [&] {
    inputs = flags.inputs.read();
    output.emplace(flags.output);
  };
  const auto compute = [&](Engine& engine) { classify(engine, flags, inputs, *output); };
  return run_engine_command(command, flags.engine, Task::classify, prepare, compute);
}

}  // namespace

// `tp-infer classify`: the probabilities of a classifier's labels for texts.
void add_classify_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<ClassifyFlags>();
  CLI::App* command = app.add_subcommand("classify", "Classify texts");
  flags->engine.add_to(*command);
  flags->engine.add_batch_option_to(*command, 64);
  flags->inputs.add_to(*command);
  command->add_flag("--json", flags->json, "One JSON object per text");
  add_output_option(*command, flags->output);
  command->footer(
      "The probabilities of a text's labels sum to 1. A model with a single label prints that label's "
      "probability.\n"
      "Example:\n"
      "  mpirun -np 2 tp-infer classify --model DIR --prompt \"What a film!\"");
  command->callback([flags, command, &status] {
    flags->inputs.require_one();
    status = run_classify(*command, *flags);
  });
}

}  // namespace tp
