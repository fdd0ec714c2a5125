#include "model/config/rope_config.h"

#include "model/config/config.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace tp {
namespace {

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// YaRN's factor of cosines and sines: 0.1 ln(factor) + 1, unless the config contains one.
double yarn_attention_factor(const JsonNode& fields, double factor) {
  if (fields.has("attention_factor")) return fields.at("attention_factor").number();
  if (fields.has("mscale") && fields.has("mscale_all_dim")) {
    return yarn_mscale(factor, fields.at("mscale").number()) /
           yarn_mscale(factor, fields.at("mscale_all_dim").number());
  }
  return yarn_mscale(factor, 1.0);
}

void read_llama3(const JsonNode& fields, const std::string& where, RopeScaling& scaling) {
  scaling.low_freq_factor = fields.at("low_freq_factor").number();
  scaling.high_freq_factor = fields.at("high_freq_factor").number();
  require<ConfigError>(scaling.low_freq_factor > 0 && scaling.high_freq_factor >= scaling.low_freq_factor,
                       "{}: rope_scaling: expected 0 < low_freq_factor <= high_freq_factor, found {} and {}",
                       where, scaling.low_freq_factor, scaling.high_freq_factor);
}

void read_yarn(const JsonNode& fields, const std::string& where, RopeScaling& scaling) {
  scaling.beta_fast = fields.number_or("beta_fast", 32.0);
  scaling.beta_slow = fields.number_or("beta_slow", 1.0);
  require<ConfigError>(scaling.beta_fast > 0 && scaling.beta_slow > 0,
                       "{}: rope_scaling: beta_fast and beta_slow must be positive, found {} and {}", where,
                       scaling.beta_fast, scaling.beta_slow);
  scaling.truncate = fields.boolean_or("truncate", true);
  scaling.attention_factor = yarn_attention_factor(fields, scaling.factor);
  scaling.score_factor = yarn_mscale(scaling.factor, fields.number_or("mscale_all_dim", 0.0));
}

// Source: Ding et al., LongRoPE, 2024, as in Phi-3. Cosines and sines grow with the context, like the entropy
// of attention.
void read_longrope(const JsonNode& fields, const RopeContext& context, const std::string& where,
                   RopeScaling& scaling) {
  const auto factors = [&](const char* name) {
    std::vector<double> values = fields.list_or_empty(name, &JsonNode::number);
    require<ConfigError>(values.size() == context.rotary_dim / 2,
                         "{}: rope_scaling: {} must have a number for every rotated pair, expected "
                         "{}, found {}",
                         where, name, context.rotary_dim / 2, values.size());
    for (const double value : values)
      require<ConfigError>(value > 0, "{}: rope_scaling: {} must be positive, found {}", where, name, value);
    return values;
  };
  scaling.short_factor = factors("short_factor");
  scaling.long_factor = factors("long_factor");
  require<ConfigError>(
      scaling.original_max_position_embeddings > 1,
      "{}: rope_scaling: longrope needs original_max_position_embeddings of at least 2, found {}; check "
      "config.json",
      where, scaling.original_max_position_embeddings);
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double growth = static_cast<double>(context.max_position_embeddings) / original;
  scaling.factor = fields.number_or("factor", growth);
  const double magnitude =
      scaling.factor <= 1 ? 1.0 : std::sqrt(1.0 + std::log(scaling.factor) / std::log(original));
  // Phi-3.5-MoE's config contains the factors.
  const char* const own = growth > 1 ? "long_mscale" : "short_mscale";
  scaling.attention_factor = fields.number_or(own, fields.number_or("attention_factor", magnitude));
}

void read_proportional(const JsonNode& fields, const std::string& where, RopeScaling& scaling) {
  scaling.factor = fields.number_or("factor", 1.0);
  scaling.turning_part = fields.number_or("partial_rotary_factor", 1.0);
  require<ConfigError>(scaling.factor >= 1 && scaling.turning_part > 0 && scaling.turning_part <= 1,
                       "{}: proportional RoPE: expected a factor >= 1, and a partial_rotary_factor above 0 "
                       "and at most 1, found {} and {}; check config.json",
                       where, scaling.factor, scaling.turning_part);
}

RopeScaling::Kind kind_of(const std::string& name, const std::string& where) {
  using Kind = RopeScaling::Kind;
  if (name == "default" || name == "mrope") return Kind::none;  // in texts, mRoPE is plain RoPE
  if (name == "linear") return Kind::linear;
  if (name == "llama3") return Kind::llama3;
  if (name == "yarn") return Kind::yarn;
  if (name == "longrope" || name == "su") return Kind::longrope;  // "su": early Phi-3 checkpoints
  if (name == "proportional") return Kind::proportional;
  throw_error<ConfigError>(
      "{}: rope_scaling of type \"{}\" is not supported; supported are linear, llama3, yarn, longrope, "
      "proportional, and dynamic that begins at max_position_embeddings",
      where, name);
}

std::string type_of(const JsonNode& fields) {
  return fields.has("rope_type") ? fields.at("rope_type").string() : fields.string_or("type", "default");
}

// Whether the scaling begins at max_position_embeddings, which no sequence exceeds.
bool never_scales(const JsonNode& fields, const RopeContext& context) {
  return type_of(fields) == "dynamic" &&
         fields.size_or("original_max_position_embeddings", context.original_max_position_embeddings) >=
             context.max_position_embeddings;
}

// Whether `alpha` increases theta once, as in Tencent's Hunyuan. All other fields of such a config are
// ignored.
bool scales_theta(const JsonNode& fields) {
  return type_of(fields) == "dynamic" && fields.number_or("alpha", 0.0) != 0.0;
}

}  // namespace

double scaled_theta(const JsonNode& fields, double theta, const RopeContext& context,
                    const std::string& where) {
  if (!scales_theta(fields)) return theta;
  const double alpha = fields.at("alpha").number();
  require<ConfigError>(
      alpha > 0 && context.rotary_dim > 2,
      "{}: rope_scaling: alpha must be positive and heads have more than 2 rotated elements, "
      "found {} and {}",
      where, alpha, context.rotary_dim);
  const auto dims = static_cast<double>(context.rotary_dim);
  return theta * std::pow(alpha, dims / (dims - 2));
}

RopeScaling parse_rope_scaling(const JsonNode& fields, const RopeContext& context, const std::string& where) {
  RopeScaling scaling;
  if (scales_theta(fields) || never_scales(fields, context)) return scaling;
  scaling.kind = kind_of(type_of(fields), where);
  if (scaling.kind == RopeScaling::Kind::none) return scaling;
  scaling.original_max_position_embeddings =
      fields.size_or("original_max_position_embeddings", context.original_max_position_embeddings);
  if (scaling.kind == RopeScaling::Kind::longrope) {
    read_longrope(fields, context, where, scaling);
    return scaling;
  }
  if (scaling.kind == RopeScaling::Kind::proportional) {
    read_proportional(fields, where, scaling);
    return scaling;
  }
  scaling.factor = fields.at("factor").number();
  require<ConfigError>(scaling.factor >= 1, "{}: rope_scaling: factor must be >= 1, found {}", where,
                       scaling.factor);
  if (scaling.kind == RopeScaling::Kind::llama3) read_llama3(fields, where, scaling);
  if (scaling.kind == RopeScaling::Kind::yarn) read_yarn(fields, where, scaling);
  return scaling;
}

namespace {

// Returns the RoPE parameters of layers without a window. rope_parameters may have separate members for
// layers with and without a window.
JsonNode rope_of_full_layers(const JsonNode& ropes, const std::string& where, CheckpointConfig& config) {
  const std::optional<JsonNode> local = ropes.find("sliding_attention");
  if (!ropes.has("full_attention")) return local.value_or(ropes);
  if (local) {
    const std::string type = local->string_or("rope_type", "default");
    require<ConfigError>(type == "default",
                         "{}: rope_parameters of layers of sliding_attention must be of the type default, "
                         "found \"{}\"; use a model whose layers with a window do not scale RoPE",
                         where, type);
    config.rope_local_base_freq = local->number_or("rope_theta", config.rope_local_base_freq);
    local->update({"partial_rotary_factor"}, config.local_partial_rotary_factor);
    require<ConfigError>(
        (!local->has("rope_theta") || config.rope_local_base_freq > 0) &&
            (!local->has("partial_rotary_factor") ||
             (config.local_partial_rotary_factor > 0 && config.local_partial_rotary_factor <= 1)),
        "{}: rope_parameters of layers of sliding_attention must have a rope_theta above 0 and a "
        "partial_rotary_factor "
        "above 0 and at most 1, found {} and {}; check config.json",
        where, config.rope_local_base_freq, config.local_partial_rotary_factor);
  }
  return ropes.at("full_attention");
}

// Reads a list with a number above 0 for each layer, which may go on for layers of multi-token prediction.
void read_numbers_of_layers(const JsonNode& fields, const std::string& name, const std::string& where,
                            std::size_t layers, std::vector<double>& numbers) {
  if (!fields.has(name) || !fields.at(name).is_array()) return;
  numbers = fields.list_or_empty(name, &JsonNode::number);
  require<ConfigError>(
      numbers.size() >= layers && std::ranges::all_of(numbers, [](double number) { return number > 0.0; }),
      "{}: {} must be a list with a number above 0 for each of {} layers, found {} numbers; check "
      "config.json",
      where, name, layers, numbers.size());
  numbers.resize(layers);
}

void read_theta(const JsonNode& fields, const Family& family, const std::string& where,
                CheckpointConfig& config) {
  const std::size_t layers = config.num_hidden_layers;
  if (family.has_theta_per_layer) {
    read_numbers_of_layers(fields, "rope_theta", where, layers, config.layer_rope_theta);
    read_numbers_of_layers(fields, "partial_rotary_factors", where, layers,
                           config.layer_partial_rotary_factor);
    if (!config.layer_rope_theta.empty()) return;
  }
  fields.update({"rope_theta", "rotary_emb_base", "global_rope_theta"}, config.rope_theta);
}

}  // namespace

void read_rope(const JsonNode& fields, const Family& family, const std::string& where,
               CheckpointConfig& config) {
  read_theta(fields, family, where, config);
  config.has_rope_theta = fields.has("rope_theta");
  fields.update({"rope_local_base_freq", "local_rope_theta", "swa_rope_theta"}, config.rope_local_base_freq);
  // Latent attention rotates a separate part of each head completely.
  const bool has_part = fields.has("qk_rope_head_dim");
  if (!has_part) {
    fields.update({"partial_rotary_factor", "rotary_pct", "rope_percent"}, config.partial_rotary_factor);
    // Outside of an object for each type of layers, the field is for all types.
    if (const std::optional<JsonNode> ropes = fields.find("rope_parameters");
        ropes && ropes->has("sliding_attention"))
      fields.update({"partial_rotary_factor"}, config.local_partial_rotary_factor);
  }
  fields.update_size({"rotary_dim"}, config.rotary_dim);
  // Newer configs have all RoPE fields in rope_parameters.
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(field)) continue;
    const JsonNode rope = rope_of_full_layers(fields.at(field), where, config);
    rope.update({"rope_theta"}, config.rope_theta);
    config.has_rope_theta = config.has_rope_theta || rope.has("rope_theta");
    // Proportional RoPE rotates whole heads, see RopeScaling::turning_part.
    if (!has_part && rope.string_or("rope_type", "") != "proportional")
      rope.update({"partial_rotary_factor"}, config.partial_rotary_factor);
    rope.update({"llama_4_scaling_beta"}, config.llama_4_scaling_beta);
    if (rope.has("mrope_section"))
      config.mrope_section = rope.list_or_empty("mrope_section", &JsonNode::count);
    const RopeContext context{.rotary_dim = rotary_dim(config),
                              .max_position_embeddings = config.max_position_embeddings,
                              .original_max_position_embeddings = fields.size_or(
                                  "original_max_position_embeddings", config.max_position_embeddings)};
    config.rope_scaling = parse_rope_scaling(rope, context, where);
    config.rope_theta = scaled_theta(rope, config.rope_theta, context, where);
  }
  require<ConfigError>(
      config.rotary_dim <= config.head_dim && config.rotary_dim % 2 == 0,
      "{}: rotary_dim must be an even number of a head's {} elements, found {}; check config.json", where,
      config.head_dim, config.rotary_dim);
  require<ConfigError>(config.partial_rotary_factor > 0 && config.partial_rotary_factor <= 1 &&
                           rotary_dim(config) % 2 == 0 && rotary_dim(config) != 0,
                       "{}: partial_rotary_factor must select an even number of a head's {} elements, "
                       "found {}",
                       where, config.head_dim, config.partial_rotary_factor);
}

}  // namespace tp
