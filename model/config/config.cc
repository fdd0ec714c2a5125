#include "model/config/config.h"

#include "model/config/architectures.h"
#include "model/config/compressed_attention_part.h"
#include "model/config/config_limits.h"
#include "model/config/drafters/drafter_config.h"
#include "model/config/encoder_config.h"
#include "model/config/gguf_config.h"
#include "model/config/layer_config.h"
#include "model/config/nearest_family.h"
#include "model/config/reformer_config.h"
#include "model/config/rope_config.h"
#include "model/config/seq2seq_config.h"
#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "model/tokenizer/folded_tokens.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

DType parse_dtype(const std::string& name, const std::string& where) {
  if (name == "float32") return DType::f32;
  if (name == "float16") return DType::f16;
  if (name == "bfloat16") return DType::bf16;
  throw_error<ConfigError>("{}: torch_dtype must be float32, float16 or bfloat16, found \"{}\"", where, name);
}

std::string architecture_of(const JsonNode& fields, const std::string& where) {
  const std::vector<std::string> names = fields.list_or_empty("architectures", &JsonNode::string);
  require<ConfigError>(
      !names.empty(),
      "{}: architectures must be a list with the model's class, e.g. [\"LlamaForCausalLM\"]; found none",
      where);
  return names.front();
}

// `folder` contains the model's tensors, for the error text; may be empty.
const Family& family_in(const std::string& where, const std::string& architecture,
                        const std::filesystem::path& folder) {
  try {
    return family_of(architecture);
  } catch (const ConfigError& error) {
    throw_error<ConfigError>("{}: {}{}", where, error.what(), printable(likeness(architecture, folder)));
  }
}

// Finds a field. A dot in the name leads into an object: "attn_config.qk_ln".
std::optional<JsonNode> find_field(const JsonNode& fields, const std::string& name) {
  const std::size_t dot = name.find('.');
  if (dot == name.npos) return fields.find(name);
  const std::optional<JsonNode> object = fields.find(name.substr(0, dot));
  return object ? find_field(*object, name.substr(dot + 1)) : std::nullopt;
}

// The class in `architectures`, or the class of the language model inside it, according to text_config, or of
// a variant.
std::string language_model_class(const JsonNode& fields, const std::string& where,
                                 const std::filesystem::path& folder) {
  const std::string outer = architecture_of(fields, where);
  const std::string model_type = fields.string_or("model_type", "");
  for (const LanguageModel& inner : family_in(where, outer, folder).language_models) {
    if (inner.model_type == model_type) return inner.architecture;
  }
  for (const FamilyVariant& variant : family_in(where, outer, folder).variants) {
    const std::optional<JsonNode> field = find_field(fields, variant.field.name);
    if (field && field->value() == nlohmann::json::parse(variant.field.value)) return variant.architecture;
  }
  return outer;
}

// Multimodal models have their language model's config in text_config, but general fields such as torch_dtype
// may be outside.
nlohmann::json language_model_of(const nlohmann::json& document) {
  nlohmann::json fields = document;
  const auto text = document.is_object() ? document.find("text_config") : document.end();
  if (text == document.end() || !text->is_object()) return fields;
  for (const auto& [name, value] : text->items()) {
    const bool is_outside = name == "architectures" || value.is_null();
    if (!is_outside || !fields.contains(name)) fields[name] = value;
  }
  return fields;
}

// A decoder size's field name: encoder-decoders use `of_decoder`, other models `names`.
std::string own_name(const JsonNode& fields, std::initializer_list<std::string> of_decoder,
                     std::initializer_list<std::string> names) {
  const std::string own = fields.name_of(of_decoder);
  return fields.has(own) ? own : fields.name_of(names);
}

// A size that config.json must contain, unless the family has a default.
std::size_t size_of(const JsonNode& fields, std::initializer_list<std::string> names, std::size_t otherwise) {
  const std::string name = fields.name_of(names);
  return otherwise == 0 ? fields.at(name).size() : fields.size_or(name, otherwise);
}

void read_heads(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  config.num_attention_heads = size_of(fields,
                                       {own_name(fields, {"decoder_attention_heads"},
                                                 {"num_attention_heads", "n_head", "num_heads", "n_heads"})},
                                       config.num_attention_heads);
  // Falcon's multi_query means one KV head. Only its new architecture uses num_kv_heads.
  fields.update({"multi_query"}, config.multi_query);
  const bool one_kv_head = config.multi_query && !config.new_decoder_architecture;
  config.num_key_value_heads =
      one_kv_head ? 1
                  : fields.size_or(fields.name_of({"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                                   "n_kv_heads", "num_attention_groups"}),
                                   config.num_key_value_heads == 0 ? config.num_attention_heads
                                                                   : config.num_key_value_heads);
  // All heads share a latent, whatever number a file gives.
  if (fields.has("kv_lora_rank")) config.num_key_value_heads = config.num_attention_heads;
  // With latent attention, head_dim is the size of the rotated part.
  // Without such a part, head_dim has no meaning, and any even number will do.
  if (fields.count_or("qk_rope_head_dim", 1) == 0)
    config.head_dim = 2;
  else
    fields.update_size(
        {"qk_rope_head_dim", "head_dim", "attention_head_dim", "attention_head_size", "d_kv", "dim_head"},
        config.head_dim);
  if (config.head_dim == 0) {
    require<ConfigError>(
        config.hidden_size % config.num_attention_heads == 0,
        "{}: hidden_size must be a multiple of num_attention_heads where head_dim is not given, "
        "found {} and {}",
        where, config.hidden_size, config.num_attention_heads);
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  require<ConfigError>(config.num_attention_heads % config.num_key_value_heads == 0,
                       "{}: num_attention_heads must be a multiple of num_key_value_heads, found {} and {}",
                       where, config.num_attention_heads, config.num_key_value_heads);
  require<ConfigError>(config.head_dim % 2 == 0,
                       "{}: head_dim must be even, because RoPE rotates pairs, found {}", where,
                       config.head_dim);
}

void read_sizes(const JsonNode& fields, const Family& family, CheckpointConfig& config) {
  config.hidden_size =
      size_of(fields, {"hidden_size", "n_embd", "n_embed", "d_model", "dim"}, config.hidden_size);
  const std::string intermediate =
      own_name(fields, {"block_ff_dim"},
               {"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "hidden_dim", "mlp_hidden_size",
                "feed_forward_size", "decoder_ffn_dim", "d_ff"});
  const bool is_list =  // see read_mixed_layers
      family.has_width_per_layer && fields.has(intermediate) && fields.at(intermediate).is_array();
  if (!is_list)
    config.intermediate_size =
        size_of(fields, {intermediate},
                family.intermediate_per_hidden == 0 ? config.intermediate_size
                                                    : family.intermediate_per_hidden * config.hidden_size);
  // Reformer's and Nemotron-H's configs list their layers and may omit their number.
  const std::size_t listed =
      fields
          .list_or_empty(fields.name_of({"attn_layers", "layers_block_type", "layer_types"}),
                         &JsonNode::string)
          .size();
  config.num_hidden_layers = size_of(fields,
                                     {own_name(fields, {"decoder_layers", "num_decoder_layers"},
                                               {"num_hidden_layers", "n_layer", "num_layers", "n_layers"})},
                                     listed != 0 ? listed : config.num_hidden_layers);
  config.vocab_size = size_of(fields, {"vocab_size"}, config.vocab_size);
  fields.update_count({"embedding_size", "word_embed_proj_dim"}, config.embedding_size);
  const std::string positions = fields.name_of({"max_position_embeddings", "n_positions", "seq_length",
                                                "max_seq_len", "max_sequence_length", "model_max_length"});
  constexpr std::size_t kUnlimited = std::size_t{1} << 20;  // as for families without positions
  config.max_position_embeddings =
      fields.size_limit_or(positions, config.max_position_embeddings,
                           fields.is_null(positions) ? config.max_position_embeddings : kUnlimited);
}

void read_attention(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  // Gemma 4: "vision" concerns images only; otherwise "all".
  const std::optional<JsonNode> bidirectional = fields.find("use_bidirectional_attention");
  if (bidirectional && bidirectional->is_string())
    config.use_bidirectional_attention = bidirectional->string() != "vision";
  else
    fields.update({"use_bidirectional_attention"}, config.use_bidirectional_attention);
  fields.update(
      {"attention_bias", "use_qkv_bias", "qkv_bias", "qkv_proj_bias", "use_bias", "enable_bias", "bias"},
      config.attention_bias);
  if (fields.has("attention_out_bias")) config.attention_out_bias = fields.at("attention_out_bias").boolean();
  fields.update({"query_pre_attn_scalar"}, config.query_pre_attn_scalar);
  config.attn_logit_softcapping = fields.limit_or("attn_logit_softcapping", config.attn_logit_softcapping);
  config.final_logit_softcapping = fields.limit_or("final_logit_softcapping", config.final_logit_softcapping);
  fields.update({"scale_attn_weights"}, config.scale_attn_weights);
  fields.update({"scale_attn_by_inverse_layer_idx"}, config.scale_attn_by_inverse_layer_idx);
  fields.update({"use_qk_norm", "qk_layernorm"}, config.use_qk_norm);
  // MPT has some of these fields in attn_config.
  const JsonNode attention = fields.has("attn_config") ? fields.at("attn_config") : fields;
  attention.update({"alibi"}, config.alibi);
  attention.update({"alibi_bias_max"}, config.alibi_bias_max);
  config.clip_qkv = attention.limit_or("clip_qkv", config.clip_qkv);
  require<ConfigError>(config.clip_qkv >= 0 && config.alibi_bias_max > 0,
                       "{}: expected clip_qkv >= 0 (0: none) and alibi_bias_max > 0, found {} and {}; check "
                       "config.json",
                       where, config.clip_qkv, config.alibi_bias_max);
}

void read_query_scaling(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  if (const std::optional<JsonNode> tuning = fields.find("attn_temperature_tuning")) {
    // Early files have a number instead of a boolean.
    config.attn_temperature_tuning = tuning->value().is_number() ? tuning->number() != 0 : tuning->boolean();
  }
  fields.update({"attn_scale"}, config.attn_scale);
  fields.update({"floor_scale"}, config.floor_scale);
  require<ConfigError>(config.floor_scale > 0,
                       "{}: floor_scale must be positive, found {}; check config.json", where,
                       config.floor_scale);
}

// MiniCPM and AFMoE derive their multipliers from sizes.
void read_multipliers(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update({"embedding_multiplier", "scale_emb"}, config.embedding_multiplier);
  if (fields.boolean_or("mup_enabled", false))
    config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
  if (fields.has("scale_depth"))
    config.residual_multiplier =
        fields.at("scale_depth").number() / std::sqrt(static_cast<double>(config.num_hidden_layers));
  if (fields.has("dim_model_base"))
    config.logits_scaling =
        static_cast<double>(config.hidden_size) / static_cast<double>(fields.at("dim_model_base").size());
  fields.update({"residual_multiplier"}, config.residual_multiplier);
  fields.update({"attention_multiplier"}, config.attention_multiplier);
  fields.update({"logits_scaling"}, config.logits_scaling);
  fields.update({"qk_scale_factor"}, config.qk_scale_factor);
  require<ConfigError>(config.logits_scaling != 0, "{}: logits are divided by logits_scaling, found 0",
                       where);
}

void read_norms(const JsonNode& fields, const std::string& where, CheckpointConfig& config) {
  fields.update({"rms_norm_eps", "layernorm_epsilon"}, config.rms_norm_eps);
  fields.update({"post_norm_eps"}, config.post_norm_eps);
  fields.update({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}, config.layer_norm_eps);
  require<ConfigError>(config.rms_norm_eps >= 0 && config.layer_norm_eps >= 0 && config.rope_theta > 0,
                       "{}: expected rms_norm_eps >= 0, layer_norm_eps >= 0 and rope_theta > 0, found {}, {} "
                       "and {}",
                       where, config.rms_norm_eps, config.layer_norm_eps, config.rope_theta);
  require<ConfigError>(config.post_norm_eps >= 0,
                       "{}: post_norm_eps must be at least 0, found {}; check config.json", where,
                       config.post_norm_eps);
  fields.update({"do_layer_norm_before"}, config.do_layer_norm_before);
}

// Reads is_causal. Only decoders have a choice: tokens of an encoder always attend to all positions, and
// tokens of an encoder-decoder's text or of a classifier with a decoder's body never do. Throws ConfigError
// for another kind's other value, and if a decoder's config asks for bidirectional attention in the other
// way.
void read_causality(const JsonNode& fields, const Family& family, const std::string& where,
                    CheckpointConfig& config) {
  const ModelKind kind = family.kind;
  if (kind == ModelKind::drafter) return;  // see drafter_fields
  if (kind == ModelKind::decoder) {
    fields.update({"is_causal"}, config.is_causal);
  } else {
    const bool own = kind == ModelKind::seq2seq || family.has_causal_body;
    require<ConfigError>(fields.boolean_or("is_causal", own) == own,
                         "{}: is_causal must be {} for {}, found {}; use a model without it", where, own,
                         describe(kind), !own);
  }
  require<ConfigError>(kind != ModelKind::decoder || !config.use_bidirectional_attention,
                       "{}: expected a model that generates text, found use_bidirectional_attention: it "
                       "attends to tokens that follow; use a model without it",
                       where);
}

// The value with "Infinity" for each number that stands for it.
nlohmann::json with_infinity(const JsonNode& node) {
  if (!node.is_array()) return node.is_infinite() ? nlohmann::json("Infinity") : node.value();
  nlohmann::json list = nlohmann::json::array();
  for (const JsonNode& element : node.elements()) list.push_back(with_infinity(element));
  return list;
}

void require_fixed(const JsonNode& fields, const FixedField& fixed, const std::string& where,
                   const std::string& architecture) {
  const std::optional<JsonNode> field = find_field(fields, fixed.name);
  require<ConfigError>(!field || with_infinity(*field) == nlohmann::json::parse(fixed.value),
                       "{}: {} must be {} for {}, found {}: this variant of the family is not supported; use "
                       "a model without it",
                       where, fixed.name, fixed.value, architecture, field ? field->value().dump() : "");
}

CheckpointConfig read_config(const nlohmann::json& document, const std::string& name,
                             const std::filesystem::path& folder = {}) {
  nlohmann::json language_model = drafter_fields(language_model_of(document), name);
  const std::string architecture = language_model_class(JsonNode(language_model, name), name, folder);
  const Family& family = family_in(name, architecture, folder);
  const char* const ties = "tie_word_embeddings";
  if (family.tied_by_outer_field && document.contains(ties)) language_model[ties] = document[ties];
  const JsonNode fields(language_model, name);
  CheckpointConfig config = family.defaults;
  config.document = {document.dump(), name};
  config.architecture = architecture;
  for (const FixedField& fixed : family.fixed_fields) require_fixed(fields, fixed, name, architecture);
  fields.update({"new_decoder_architecture"}, config.new_decoder_architecture);
  fields.update({"parallel_attn"}, config.parallel_attn);
  fields.update_count({"num_ln_in_parallel_attn"}, config.num_ln_in_parallel_attn);
  fields.update({"use_parallel_residual"}, config.use_parallel_residual);
  read_sizes(fields, family, config);
  read_heads(fields, name, config);
  require_countable_parts(name, config);  // before creating lists of layers
  read_rope(fields, family, name, config);
  if (config.mamba.d_conv != 0) read_mamba(fields, name, config);
  if (config.mamba1.d_conv != 0) read_mamba1(fields, name, config);
  if (config.rwkv7.head_dim != 0) read_rwkv7(fields, name, config);
  if (config.short_convolution.l_cache != 0) read_short_convolutions(fields, name, config);
  read_layers(fields, family, name, config);
  read_mixed_layers(fields, name, config);
  read_attention(fields, name, config);
  read_multipliers(fields, name, config);
  read_query_scaling(fields, name, config);
  read_latent_attention(fields, config);
  if (config.indexer.topk != 0) read_indexer(fields, name, config);
  if (config.block_indexer.n_heads != 0) read_block_indexer(fields, name, config);
  if (config.pooled_indexer.n_heads != 0) read_pooled_indexer(fields, name, config);
  read_experts(fields, config);
  if (config.compressed.q_lora_rank != 0) read_compressed_attention(fields, name, config);
  read_norms(fields, name, config);
  read_causality(fields, family, name, config);
  if (family.kind == ModelKind::drafter)
    read_drafter(fields, name, config.drafter);
  else if (family.kind != ModelKind::decoder)
    read_encoder(fields, name, config);
  if (family.kind == ModelKind::diffusion) read_mask_or_canvas(fields, name, config);
  read_reformer(fields, config);
  fields.update({"mlp_bias", "mlp_fc1_bias", "use_bias", "enable_bias", "bias"}, config.mlp_bias);
  fields.update({"logit_scale", "output_multiplier", "lm_head_multiplier"}, config.logit_scale);
  fields.update({"lm_head_bias"}, config.lm_head_bias);
  fields.update({"tie_embedding", "tie_word_embeddings", "weight_tying"}, config.tie_word_embeddings);
  fields.update({"hidden_activation", "hidden_act", "activation_function", "activation", "activation_type",
                 "mlp_hidden_act"},
                config.hidden_act);
  const char* dtype_field = fields.has("dtype") ? "dtype" : "torch_dtype";
  config.torch_dtype = parse_dtype(fields.string_or(dtype_field, "float32"), name);
  if (const std::optional<JsonNode> eos = fields.find("eos_token_id"))
    config.eos_token_ids = eos->token_ids();
  if (family.kind == ModelKind::seq2seq) read_seq2seq(fields, name, config);
  require_countable_parts(name, config);
  return config;
}

// Hash tables by folded ids need the tokenizer. The folded ids become a field of the document, because all
// ranks read the config from it. Without tokenizer.json there are none, which is enough for synthetic
// weights.
CheckpointConfig with_token_map(CheckpointConfig config, nlohmann::json document,
                                const std::filesystem::path& file) {
  const HashTableConfig& table = config.hash_table;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const bool is_complete = table.folded_vocab_size == 0 || table.layers.empty() || !table.token_map.empty();
  if (is_complete || !has_file(folder / "tokenizer.json")) return config;
  document[kTokenMap] = folded_tokens(Tokenizer::load(folder));
  return read_config(document, file.string(), file.parent_path());
}

}  // namespace

std::size_t rotary_dim(const CheckpointConfig& config) {
  if (config.rotary_dim != 0) return config.rotary_dim;
  // Called before the factor is checked, so a factor below 0 or above 1 must not reach the conversion.
  const double part = std::clamp(config.partial_rotary_factor, 0.0, 1.0);
  return static_cast<std::size_t>(static_cast<double>(config.head_dim) * part);
}

CheckpointConfig load_config(const std::filesystem::path& file) {
  if (const std::optional<std::filesystem::path> gguf = find_gguf(file))
    return read_config(gguf_config(GgufFiles(*gguf)), gguf->string());
  const bool is_folder = std::filesystem::is_directory(file);
  const std::filesystem::path path = is_folder ? file / "config.json" : file;
  if (is_folder && !has_file(path)) refuse_other_folders(file);
  const nlohmann::json document = read_json_file(path);
  return with_token_map(read_config(document, path.string(), path.parent_path()), document, path);
}

CheckpointConfig parse_config(const std::string& text, const std::string& name) {
  return read_config(parse_json_file(text, name), name);
}

}  // namespace tp
