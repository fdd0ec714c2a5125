#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/differential/random_trial.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/reference/fixture.h"

#include <algorithm>

namespace tp::differential {
namespace {

using Places = std::vector<ModelPlace>;

void add_models(const std::string& kind, const std::filesystem::path& folder, Places& all) {
  if (!std::filesystem::is_directory(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path& path = entry.path();
    const std::string name = kind + "/" + path.filename().string();
    if (std::ranges::find(all, name, &ModelPlace::name) != all.end()) continue;
    // Its config.json lacks the projector's size, which list_reranker_folder.h adds.
    if (name == "rerank/jina-reranker-v3") continue;
    if (std::filesystem::exists(path / "target"))
      all.push_back({name, path / "target", path / "draft"});
    else if (std::filesystem::exists(path / "model.gguf"))
      all.push_back({name, path / "model.gguf"});
    else if (std::filesystem::exists(path / "config.json"))
      all.push_back({name, path});
  }
}

Places own_models() {
  Places all;
  for (const char* kind : {"diffusion", "drafters", "encoders", "logits", "rerank", "seq2seq"})
    add_models(kind, reference::seeded_folder(kind), all);
  for (const char* kind : {"gguf", "gguf_encoders"})
    add_models(kind, std::filesystem::path(TP_TEST_DATA) / kind, all);
  std::ranges::sort(all, {}, &ModelPlace::name);
  return all;
}

// Models that the project does not have.
Places shared_models(const Places& own) {
  Places all = own;
  for (const char* kind : {"diffusion", "encoders", "gguf", "logits", "seq2seq", "trained"})
    add_models(kind, std::filesystem::path(TP_SHARED_FIXTURES) / kind, all);
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own.size()));
  std::ranges::sort(all, {}, &ModelPlace::name);
  return all;
}

}  // namespace

TrialModel random_model(reference::Random& random) {
  static const Places kOwn = own_models();
  static const Places kShared = shared_models(kOwn);
  const bool is_shared = random.integer(0, 7) == 0;
  const std::size_t index = random.integer(0, (1U << 30) - 1);
  const Places& places = is_shared && !kShared.empty() ? kShared : kOwn;
  const ModelPlace& place = places[index % places.size()];
  const CheckpointConfig config = load_config(place.path);
  return {place, config, make_spec(config), kind_of(config)};
}

bool TrialModel::is_cached_decoder() const { return kind == ModelKind::decoder && can_divide_steps(spec); }

bool TrialModel::may_have_letters() const {
  return does(kind, Task::generate) &&
         (name.starts_with("logits/") || name.starts_with("seq2seq/") || !drafter.empty());
}

bool TrialModel::may_have_layer() const {
  static const std::vector<reference::Fixture> kFixtures = test::fixtures_of_families_with_layer();
  return std::ranges::find(kFixtures, path, &reference::Fixture::folder) != kFixtures.end();
}

bool TrialModel::has_draft_model() const {
  return !drafter.empty() || (is_cached_decoder() && std::ranges::none_of(spec.blocks, keeps_state));
}

std::vector<std::pair<std::string, MatrixShape>> TrialModel::adapted_layers() const {
  std::vector<std::pair<std::string, MatrixShape>> layers;
  if (!std::filesystem::is_directory(path) || !is_cached_decoder()) return layers;
  const auto source = SafetensorsCheckpoint::open(path);
  for (const std::string& tensor : source->names()) {
    const std::vector<std::size_t>& shape = source->find_raw(tensor)->tensor.shape;
    const bool is_projection =
        tensor.ends_with("self_attn.o_proj.weight") || tensor.ends_with("mlp.down_proj.weight");
    const bool is_elsewhere = tensor.find("vis") != tensor.npos || tensor.find("mtp") != tensor.npos;
    if (!is_projection || is_elsewhere || shape.size() != 2) continue;
    layers.push_back({tensor.substr(0, tensor.rfind('.')), {shape[0], shape[1]}});
  }
  return layers;
}

}  // namespace tp::differential
