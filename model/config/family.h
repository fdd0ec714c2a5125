// A family of models. Each family is a file in families/, written as its difference from another family.
// family_list.inc lists all families. Only families and architectures.cc include it.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "model/config/tensor_names.h"

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

class ModelMetadata;

// A factor of some rows of a tensor.
struct GgufFactor {
  std::string tensor;  // in GGUF files, without the prefix "blk.N."
  double factor = 1.0;
  std::size_t first_row = 0;
  std::size_t rows = 0;  // 0: all rows
};

// How GGUF files describe models of a family.
struct GgufFamily {
  std::string architecture;        // general.architecture; empty: GGUF files are not supported
  std::string moe_architecture{};  // general.architecture of models with experts, if it differs
  // If families share an architecture: whether the model belongs to this family.
  bool (*is_of)(const ModelMetadata& model) = nullptr;
  // Fields of config.json that differ from gguf_config's for all families. Throws CheckpointError or
  // ConfigError for invalid metadata.
  nlohmann::json (*config)(const ModelMetadata& model) = nullptr;
  bool stores_windows = false;      // files list the layers with a window
  bool read_only = false;           // such files can be read, but not written
  bool stores_rope_layers = false;  // files list the layers with RoPE
  // Files describe the choice of experts even if it has no bias and attention has no latents.
  bool describes_router = false;
  // rope.dimension_count is twice the number of rotated elements in layers without a window.
  bool doubles_rotary_dim = false;
  // Changes `names` if models of the family have different ones. Null: no changes.
  void (*adapt_names)(const ModelMetadata& model, TensorNames& names) = nullptr;
  // The factors that files contain in their tensors instead of their metadata. Sets these factors of `config`
  // to 1. Null: no such factors. Throws ConfigError if tensors cannot contain them.
  std::vector<GgufFactor> (*fold_factors)(CheckpointConfig& config) = nullptr;

  // Tensors that readers of such files expect and don't use, each with the tensor of which it is a copy.
  std::vector<std::pair<std::string, std::string>> copies{};

  // general.architecture of a model.
  const std::string& architecture_of(const CheckpointConfig& config) const {
    return config.num_experts != 0 && !moe_architecture.empty() ? moe_architecture : architecture;
  }
};

// A field of config.json that must be absent or have this value, as JSON. The family's parts cannot express
// models with other values.
struct FixedField {
  std::string name;  // "attn_config.qk_ln"
  std::string value;
};

// The language model in a model of several modalities.
struct LanguageModel {
  std::string model_type;  // in text_config
  std::string architecture;
};

// Another family whose checkpoints have the same class, but this value in a field.
struct FamilyVariant {
  FixedField field;
  std::string architecture;
};

struct Family {
  std::string architecture;  // in config.json's `architectures`
  ModelKind kind = ModelKind::decoder;
  // The architecture of the classifier that a decoder becomes if its answers yes and no rank documents;
  // empty: it cannot.
  std::string reranker{};
  bool has_causal_body = false;                  // tokens of a classifier attend to earlier tokens only
  std::vector<std::string> aliases{};            // other names of the same class in `architectures`
  std::vector<LanguageModel> language_models{};  // families that the class may contain
  std::vector<FamilyVariant> variants{};
  // Defaults of fields that config.json may omit. Sizes that are 0 here are required.
  CheckpointConfig defaults{};
  // Whether tie_word_embeddings outside of text_config counts, rather than the field inside.
  bool tied_by_outer_field = false;
  // Whether layer_rope_theta may differ between layers with RoPE.
  bool has_theta_per_layer = false;
  // Names in layer_types that mean another type in this family, and this type: {"hybrid", "full_attention"}.
  std::vector<std::pair<std::string, std::string>> layer_types{};
  // Whether intermediate_size may be a list, with a width for each layer's MLP.
  bool has_width_per_layer = false;
  // intermediate_size as a multiple of hidden_size, if config.json omits it; 0: the field is required.
  std::size_t intermediate_per_hidden = 0;
  std::vector<FixedField> fixed_fields{};
  TensorNames names{};
  // Throws ConfigError for a config that the parts cannot express.
  ModelSpec (*make_spec)(const CheckpointConfig& config) = nullptr;
  // Adds the class's head to make_spec's result, if classes of the family have different heads. Throws
  // ConfigError.
  std::function<void(const CheckpointConfig& config, ModelSpec& spec)> set_head{};
  // The spec of the multi-token prediction layer, a decoder with one block. Null: the family has no such
  // layer.
  ModelSpec (*make_next_token_spec)(const CheckpointConfig& config) = nullptr;
  GgufFamily gguf{};
};

}  // namespace tp
