#include "model/config/gguf_config.h"
#include "model/files/printable.h"
#include "model/weights/gguf/gguf_vector.h"
#include "tp/internal/require.h"

#include <cmath>
#include <string>
#include <vector>

namespace tp {
namespace {

using nlohmann::json;

// Reads divisors of RoPE's frequencies and multiplies them by `factor`.
std::vector<float> divisors(const ModelMetadata& model, std::string_view tensor, double factor) {
  std::vector<float> values = gguf_vector(model.files(), tensor);
  for (float& value : values) value = static_cast<float>(value * factor);
  return values;
}

// The number of elements per head that RoPE rotates.
std::uint64_t rotated_elements(const ModelMetadata& model) {
  constexpr std::uint64_t kMax = 65536;
  const std::uint64_t rotated = model.whole_or("rope.dimension_count", model.head_dim());
  require<ConfigError>(
      rotated <= kMax,
      "{}: rope.dimension_count, or else the size of a head, is {}, expected at most {}; convert "
      "the checkpoint to GGUF again",
      model.files().name(), rotated, kMax);
  return rotated;
}

std::uint64_t original_context(const ModelMetadata& model) {
  return model.whole_or("rope.scaling.original_context_length", model.whole("context_length"));
}

// Without a type, the factor is linear. Older files use another key. 0 means no factor.
double linear_factor(const ModelMetadata& model) {
  const double factor = model.number_or("rope.scaling.factor", model.number_or("rope.scale_linear", 0.0));
  return factor == 0.0 ? 1.0 : factor;
}

void require_value(const ModelMetadata& model, const char* key, double expected) {
  const double found = model.number_or(key, expected);
  require<ConfigError>(found == expected, "{}: {} is {}, expected {}; use the model's original checkpoint",
                       model.files().name(), key, found, expected);
}

constexpr const char* kCommonFactors = "rope_freqs.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";
constexpr const char* kLongFactors = "rope_factors_long.weight";

// Refuses YaRN with stored factors: YaRN computes frequencies from metadata alone. Throws ConfigError.
void require_no_factors(const ModelMetadata& model) {
  for (const char* const tensor : {kCommonFactors, kShortFactors, kLongFactors}) {
    require<ConfigError>(model.files().find(tensor) == nullptr,
                         "{}: expected no tensor {} with rope.scaling.type yarn, found one; use the model's "
                         "original checkpoint",
                         model.files().name(), tensor);
  }
}

json yarn_scaling(const ModelMetadata& model, double factor, double attention_factor) {
  json scaling = {{"rope_type", "yarn"},
                  {"factor", factor},
                  {"original_max_position_embeddings", original_context(model)},
                  {"beta_fast", model.number_or("rope.scaling.yarn_beta_fast", 32.0)},
                  {"beta_slow", model.number_or("rope.scaling.yarn_beta_slow", 1.0)}};
  double usual = 0.1 * std::log(std::max(factor, 1.0)) + 1.0;
  // In DeepSeek's files, a tenth of mscale_all_dim, which equals mscale in all its models.
  if (model.has("rope.scaling.yarn_log_multiplier")) {
    scaling["mscale"] = scaling["mscale_all_dim"] = 10 * model.number("rope.scaling.yarn_log_multiplier");
    usual = 1.0;
  }
  if (attention_factor != 1.0) scaling["attention_factor"] = usual * attention_factor;
  return scaling;
}

// Tensors of frequency factors contain Llama 3's scaling, or Phi-3's, which has two sets of factors.
// llama.cpp combines them with a linear factor and an attention factor.
json longrope_scaling(const ModelMetadata& model, double factor, double attention_factor) {
  std::vector<float> short_factors = divisors(model, kCommonFactors, factor);
  std::vector<float> long_factors = short_factors;
  if (short_factors.empty()) {
    short_factors = divisors(model, kShortFactors, factor);
    long_factors = divisors(model, kLongFactors, factor);
  }
  if (short_factors.empty() && long_factors.empty()) {
    if (attention_factor == 1.0) return nullptr;
    short_factors = long_factors =
        std::vector<float>(rotated_elements(model) / 2, static_cast<float>(factor));
  }
  return {{"rope_type", "longrope"},
          {"short_factor", short_factors},
          {"long_factor", long_factors},
          {"attention_factor", attention_factor},
          {"original_max_position_embeddings", original_context(model)}};
}

json rope_scaling(const ModelMetadata& model) {
  const std::string_view type = model.text_or("rope.scaling.type", "linear");
  // Looked up even if the type is "none", so that require_known_rope knows the key.
  const double stored_factor = linear_factor(model);
  const double factor = type == "none" ? 1.0 : stored_factor;
  const double attention_factor = model.number_or("rope.scaling.attn_factor", 1.0);
  if (type == "yarn") {
    require_no_factors(model);
    require_value(model, "rope.scaling.yarn_ext_factor", 1.0);
    require_value(model, "rope.scaling.yarn_attn_factor", 1.0);
    return yarn_scaling(model, factor, attention_factor);
  }
  const json scaling = longrope_scaling(model, factor, attention_factor);
  if (!scaling.is_null()) return scaling;
  if (type != "linear" && type != "none") return {{"rope_type", type}, {"factor", factor}};
  return factor == 1.0 ? json(nullptr) : json{{"rope_type", "linear"}, {"factor", factor}};
}

}  // namespace

json gguf_rope(const ModelMetadata& model) {
  json rope = {{"rope_theta", model.number_or("rope.freq_base", 10000.0)},
               {"rope_scaling", rope_scaling(model)}};
  if (const double beta = model.number_or("attention.temperature_scale", 0.0); beta != 0.0) {
    require_value(model, "attention.temperature_length", static_cast<double>(original_context(model)));
    rope["rope_scaling"]["llama_4_scaling_beta"] = beta;
  }
  // Models without RoPE may have 0 rotated elements.
  const std::uint64_t rotated = rotated_elements(model);
  if (rotated != 0) rope["rotary_dim"] = rotated;
  return rope;
}

void require_known_rope(const ModelMetadata& model) {
  // Skips keys without effect: rope.scaling.finetuned, mRoPE's sections, YaRN's keys without YaRN, and a base
  // for windows that equals rope.freq_base.
  const bool is_yarn = model.text_or("rope.scaling.type", "") == "yarn";
  const double theta = model.number_or("rope.freq_base", 10000.0);
  for (const std::string& key : model.unasked("rope.")) {
    if (key == "rope.scaling.finetuned" || key == "rope.dimension_sections") continue;
    if (!is_yarn && (key.starts_with("rope.scaling.yarn_") || key == "rope.scaling.original_context_length"))
      continue;
    if (key == "rope.freq_base_swa" && model.number(key) == theta) continue;
    throw_error<ConfigError>(
        "{}: {} is not supported for the architecture {}, expected a model without it; use the model's "
        "original checkpoint",
        model.files().name(), printable(key), printable(model.architecture()));
  }
}

}  // namespace tp
