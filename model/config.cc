#include "model/config.h"

#include "model/architectures.h"
#include "model/checkpoint/gguf_config.h"
#include "model/json_fields.h"
#include "tp/error.h"

#include <cmath>

namespace tp {
namespace {

DType parse_dtype(const std::string& name, const std::string& where) {
  if (name == "float32") return DType::f32;
  if (name == "float16") return DType::f16;
  if (name == "bfloat16") return DType::bf16;
  throw_error<ConfigError>("{}: torch_dtype must be float32, float16 or bfloat16, found \"{}\"", where, name);
}

// The factor that yarn multiplies cosines and sines by; 0.1 ln(factor) + 1 unless the config names one.
double yarn_attention_factor(const JsonFields& fields, double factor) {
  const auto mscale_of = [&](double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
  };
  if (fields.has("attention_factor")) return fields.number("attention_factor");
  if (fields.has("mscale") && fields.has("mscale_all_dim")) {
    return mscale_of(fields.number("mscale")) / mscale_of(fields.number("mscale_all_dim"));
  }
  return mscale_of(1.0);
}

RopeScaling parse_rope_scaling(const JsonFields& fields, std::size_t max_positions,
                               const std::string& where) {
  RopeScaling scaling;
  const std::string kind =
      fields.has("rope_type") ? fields.text("rope_type") : fields.text_or("type", "default");
  if (kind == "default") return scaling;
  if (kind == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
  } else if (kind == "llama3") {
    scaling.kind = RopeScaling::Kind::llama3;
  } else if (kind == "yarn") {
    scaling.kind = RopeScaling::Kind::yarn;
  } else {
    throw_error<ConfigError>(
        "{}: rope_scaling of type \"{}\" is not supported; supported are linear, llama3 and yarn", where,
        kind);
  }
  scaling.factor = fields.number("factor");
  require<ConfigError>(scaling.factor >= 1, "{}: rope_scaling: factor must be >= 1, found {}", where,
                       scaling.factor);
  scaling.original_max_position_embeddings =
      fields.size_or("original_max_position_embeddings", max_positions);
  if (scaling.kind == RopeScaling::Kind::llama3) {
    scaling.low_freq_factor = fields.number("low_freq_factor");
    scaling.high_freq_factor = fields.number("high_freq_factor");
    require<ConfigError>(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor,
                         "{}: rope_scaling: expected 0 < low_freq_factor < high_freq_factor, found {} and {}",
                         where, scaling.low_freq_factor, scaling.high_freq_factor);
  }
  if (scaling.kind == RopeScaling::Kind::yarn) {
    scaling.beta_fast = fields.number_or("beta_fast", 32.0);
    scaling.beta_slow = fields.number_or("beta_slow", 1.0);
    require<ConfigError>(scaling.beta_fast > 0 && scaling.beta_slow > 0,
                         "{}: rope_scaling: beta_fast and beta_slow must be positive, found {} and {}", where,
                         scaling.beta_fast, scaling.beta_slow);
    scaling.attention_factor = yarn_attention_factor(fields, scaling.factor);
  }
  return scaling;
}

std::string architecture_of(const nlohmann::json& object, const std::string& where) {
  const auto found = object.find("architectures");
  require<ConfigError>(
      found != object.end() && found->is_array() && !found->empty() && found->front().is_string(),
      "{}: architectures must be a list with the model's class, e.g. [\"LlamaForCausalLM\"]", where);
  return found->front().get<std::string>();
}

void check_heads(const ModelConfig& config, const std::string& where) {
  require<ConfigError>(config.num_attention_heads % config.num_key_value_heads == 0,
                       "{}: num_attention_heads must be a multiple of num_key_value_heads, found {} and {}",
                       where, config.num_attention_heads, config.num_key_value_heads);
  require<ConfigError>(config.head_dim % 2 == 0,
                       "{}: head_dim must be even, because rotary positions turn pairs, found {}", where,
                       config.head_dim);
}

}  // namespace

ModelConfig load_config(const std::filesystem::path& file) {
  if (const std::optional<std::filesystem::path> gguf = find_gguf(file))
    return parse_config(gguf_config(GgufFiles(*gguf)).dump(), gguf->string());
  const std::filesystem::path path = std::filesystem::is_directory(file) ? file / "config.json" : file;
  return parse_config(read_text_file(path), path.string());
}

ModelConfig parse_config(const std::string& text, const std::string& name) {
  const nlohmann::json object = parse_json_object(text, name);
  const JsonFields fields(object, name);

  ModelConfig config;
  config.architecture = architecture_of(object, name);
  require_supported(config.architecture);
  config.hidden_size = fields.size("hidden_size");
  config.intermediate_size = fields.size("intermediate_size");
  config.num_hidden_layers = fields.size("num_hidden_layers");
  config.num_attention_heads = fields.size("num_attention_heads");
  config.num_key_value_heads = fields.size_or("num_key_value_heads", config.num_attention_heads);
  config.vocab_size = fields.size("vocab_size");
  config.max_position_embeddings = fields.size_or("max_position_embeddings", 2048);
  if (!fields.has("head_dim")) {
    require<ConfigError>(
        config.hidden_size % config.num_attention_heads == 0,
        "{}: hidden_size must be a multiple of num_attention_heads where head_dim is not given, "
        "found {} and {}",
        name, config.hidden_size, config.num_attention_heads);
  }
  config.head_dim = fields.size_or("head_dim", config.hidden_size / config.num_attention_heads);
  check_heads(config, name);

  config.rms_norm_eps = fields.number_or("rms_norm_eps", 1e-6);
  config.rope_theta = fields.number_or("rope_theta", 10000.0);
  require<ConfigError>(config.rms_norm_eps >= 0 && config.rope_theta > 0,
                       "{}: expected rms_norm_eps >= 0 and rope_theta > 0, found {} and {}", name,
                       config.rms_norm_eps, config.rope_theta);
  // Newer configs keep both in rope_parameters.
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(field)) continue;
    const JsonFields rope = fields.object(field);
    config.rope_theta = rope.number_or("rope_theta", config.rope_theta);
    config.rope_scaling = parse_rope_scaling(rope, config.max_position_embeddings, name);
  }
  config.attention_bias = fields.boolean_or("attention_bias", false);
  config.mlp_bias = fields.boolean_or("mlp_bias", false);
  config.tie_word_embeddings = fields.boolean_or("tie_word_embeddings", false);
  config.hidden_act = fields.text_or("hidden_act", "silu");
  const char* dtype_field = fields.has("dtype") ? "dtype" : "torch_dtype";
  config.torch_dtype = parse_dtype(fields.text_or(dtype_field, "float32"), name);
  config.eos_token_ids = fields.token_ids("eos_token_id");
  return config;
}

}  // namespace tp
