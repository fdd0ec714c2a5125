#include "runtime/setup/task_config.h"

#include "model/config/architectures.h"
#include "model/files/json_node.h"
#include "model/tokenizer/tokenizer.h"
#include "tp/internal/require.h"

#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

constexpr const char* kRank = "rank";
constexpr const char* kAnswers = "classifier_from_token";  // vLLM's name
constexpr const char* kAnswerIds = "classifier_token_ids";

// The ids of the answers no and yes.
std::vector<TokenId> ids_of_answers(const std::filesystem::path& model,
                                    const std::vector<std::string>& answers) {
  require<ConfigError>(answers.size() == 2, "{}: {} must be the answers no and yes, found {} texts",
                       model.string(), kAnswers, answers.size());
  const Tokenizer tokenizer = Tokenizer::load(model);
  std::vector<TokenId> ids;
  for (const std::string& answer : answers) {
    const std::optional<TokenId> id = tokenizer.token_to_id(answer);
    require<ConfigError>(id.has_value(),
                         "{}: cannot rank documents by answers: expected a token \"{}\", found none; use "
                         "another model",
                         model.string(), answer);
    ids.push_back(*id);
  }
  return ids;
}

CheckpointConfig changed(const CheckpointConfig& config, const json& document) {
  return parse_config(document.dump(), config.document.file);
}

CheckpointConfig with_answers(const std::filesystem::path& model, const CheckpointConfig& config,
                              json document, const std::vector<std::string>& answers) {
  document[kAnswerIds] = ids_of_answers(model, answers);
  document["id2label"] = {{"0", answers.back()}};
  return changed(config, document);
}

}  // namespace

bool ranks_by_answers(const CheckpointConfig& config) {
  return kind_of(config) == ModelKind::decoder && !family_of(config.architecture).reranker.empty();
}

CheckpointConfig load_config_for(const std::filesystem::path& model, const std::string& task) {
  const CheckpointConfig config = load_config(model);
  json document = json::parse(config.document.text);
  const bool is_classifier = kind_of(config) == ModelKind::classifier;
  if (task.empty() || (task == kRank && does(kind_of(config), Task::rank))) {
    const std::vector<std::string> answers =
        JsonNode(document, config.document.file).list_or_empty(kAnswers, &JsonNode::string);
    const bool has_ids = document.contains(kAnswerIds);
    return is_classifier && !answers.empty() && !has_ids ? with_answers(model, config, document, answers)
                                                         : config;
  }
  if (task == kRank && ranks_by_answers(config)) {
    document["architectures"] = {family_of(config.architecture).reranker};
    return with_answers(model, config, document, {"no", "yes"});
  }
  const std::vector<std::string>& adapters = config.encoder.lora_adaptations;
  require<ConfigError>(!adapters.empty(),
                       "cannot use {} for the `task` \"{}\": expected {}a model with adapters for tasks, "
                       "found {}; leave `task` "
                       "out",
                       model.string(), task, task == kRank ? "a reranker, or " : "", config.architecture);
  document["lora_task"] = task;
  return changed(config, document);
}

}  // namespace tp
