// A family of models: everything that the program knows about it. Each is a file of this folder, written as
// its difference from another one; family_list.inc lists them.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "tp/model_config.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

class ModelMetadata;

// What GGUF files say about a model of a family.
struct GgufFamily {
  std::string architecture;  // general.architecture; empty: no GGUF file is read as this family
  // Where families share an architecture: whether the model is of this one.
  bool (*is_of)(const ModelMetadata& model) = nullptr;
  // The fields of config.json that differ from what gguf_config says for all families. Throws CheckpointError
  // or ConfigError for metadata that cannot be right.
  nlohmann::json (*config)(const ModelMetadata& model) = nullptr;
  bool stores_windows = false;  // files say which layers have a window
  // Where models of the family differ in their tensors' names.
  void (*adapt_names)(const ModelMetadata& model, TensorNames& names) = nullptr;
};

// A field of config.json that may be absent or have this value, as JSON; others describe models that the
// family's parts cannot express.
struct FixedField {
  std::string name;  // "attn_config.qk_ln"
  std::string value;
};

// The language model in a model of several modalities.
struct LanguageModel {
  std::string model_type;  // in text_config
  std::string architecture;
};

struct Family {
  std::string architecture;  // in `architectures` of config.json
  ModelKind kind = ModelKind::decoder;
  std::vector<std::string> aliases{};            // other names there for the same
  std::vector<LanguageModel> language_models{};  // other families that its class may contain
  // What config.json may leave out; numbers that are 0 here it must give.
  ModelConfig defaults{};
  // intermediate_size as a multiple of hidden_size where config.json does not give it; 0: it must.
  std::size_t intermediate_per_hidden = 0;
  std::vector<FixedField> fixed_fields{};
  TensorNames names{};
  // Throws ConfigError for a config that the parts cannot express.
  DecoderSpec (*make_spec)(const ModelConfig& config) = nullptr;
  // Of the layer that predicts the token after the next one, a decoder with one block; null: models have
  // none.
  DecoderSpec (*make_next_token_spec)(const ModelConfig& config) = nullptr;
  GgufFamily gguf{};
};

namespace families {

#define TP_FAMILY(name) Family name();
#include "model/config/family_list.inc"
#undef TP_FAMILY

}  // namespace families
}  // namespace tp
