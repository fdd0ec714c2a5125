#include "launch/ranks/model_task.h"

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "runtime/setup/task_config.h"
#include "tp/internal/require.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

struct TaskText {
  std::string_view command;
  std::string_view what;
  std::string_view expected;
};

TaskText task_text(Task task) {
  switch (task) {
    case Task::generate:
      return {"generate", "generate text", "a decoder or an encoder-decoder"};
    case Task::score:
      return {"perplexity", "score a text", "a decoder"};
    case Task::logits:
      return {"logits", "compute logits", "a model with a head"};
    case Task::hidden:
      return {"hidden", "compute hidden states", "any model"};
    case Task::embed:
      return {"embed", "embed texts", "a decoder, an encoder or a diffusion language model"};
    case Task::fill_mask:
      return {"fill-mask", "fill masks", "a masked language model"};
    case Task::classify:
      return {"classify", "classify texts", "a sequence classifier"};
    case Task::rank:
      return {"rank", "rank documents",
              "a sequence classifier, a listwise reranker, or a decoder that answers yes and no"};
  }
  return {};
}

}  // namespace

void require_task(const std::filesystem::path& model, Task task) {
  const CheckpointConfig config = load_config(model);
  const ModelKind kind = kind_of(config);
  require<ConfigError>(kind != ModelKind::drafter,
                       "cannot {} with {}: expected a model, found a trained drafter ({}), which only drafts "
                       "for its target; use --model TARGET --speculate draft:DRAFTER",
                       task_text(task).what, model.string(), name_of(config.drafter.kind));
  std::vector<std::string_view> commands;
  for (const Task other : tasks_of(kind)) commands.push_back(task_text(other).command);
  require<ConfigError>(
      does(kind, task) || (task == Task::rank && ranks_by_answers(config)),
      "cannot {} with {}: expected {}, found {} ({}); use tp-infer {} with it, or another model",
      task_text(task).what, model.string(), task_text(task).expected, describe(kind), config.architecture,
      fmt::join(commands, ", "));
}

}  // namespace tp
