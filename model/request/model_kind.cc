#include "tp/model_kind.h"

#include <algorithm>

namespace tp {

std::string_view describe(ModelKind kind) {
  switch (kind) {
    case ModelKind::decoder:
      return "a decoder";
    case ModelKind::encoder:
      return "an encoder";
    case ModelKind::masked_lm:
      return "a masked language model";
    case ModelKind::classifier:
      return "a sequence classifier";
    case ModelKind::list_reranker:
      return "a listwise reranker";
    case ModelKind::diffusion:
      return "a diffusion language model";
    case ModelKind::seq2seq:
      return "an encoder-decoder";
    case ModelKind::non_causal:
      return "a decoder without causal attention (is_causal is false)";
    case ModelKind::drafter:
      return "a trained drafter";
  }
  return "a model";
}

std::vector<Task> tasks_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::decoder:
      return {Task::generate, Task::score, Task::logits, Task::hidden, Task::embed};
    case ModelKind::encoder:
      return {Task::hidden, Task::embed};
    case ModelKind::masked_lm:
      return {Task::logits, Task::hidden, Task::embed, Task::fill_mask};
    case ModelKind::classifier:
      return {Task::logits, Task::hidden, Task::embed, Task::classify, Task::rank};
    case ModelKind::list_reranker:
      return {Task::hidden, Task::embed, Task::rank};
    case ModelKind::diffusion:
      return {Task::generate, Task::logits, Task::hidden, Task::embed};
    case ModelKind::seq2seq:
      return {Task::generate, Task::logits, Task::hidden};
    case ModelKind::non_causal:
      return {Task::logits, Task::hidden, Task::embed};
    case ModelKind::drafter:
      return {};
  }
  return {};
}

bool does(ModelKind kind, Task task) {
  const std::vector<Task> tasks = tasks_of(kind);
  return std::ranges::find(tasks, task) != tasks.end();
}

}  // namespace tp
