#include "model/config/generation_fields.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using enum GenerationField;

constexpr GenerationFieldRule kFields[] = {
    {"assistant_confidence_threshold", without_use},
    {"assistant_early_exit", without_use},
    {"assistant_ensemble_weight", without_use},  // only used with an assistant model
    {"assistant_lookbehind", without_use},
    {"bad_words_ids", honoured},
    {"begin_suppress_tokens", honoured},
    {"bos_token_id", honoured},
    {"cache_config", without_use},
    {"cache_implementation", without_use},
    {"compile_config", without_use},
    {"constraints", unsupported},
    {"continuous_batching_config", without_use},
    {"decoder_start_token_id", honoured},
    {"disable_compile", without_use},
    {"diversity_penalty", unsupported, "0"},
    {"do_sample", honoured},
    {"dola_layers", unsupported},
    {"early_stopping", honoured},
    {"encoder_no_repeat_ngram_size", unsupported, "0"},
    {"encoder_repetition_penalty", unsupported, "1"},
    {"eos_token_id", honoured},
    {"epsilon_cutoff", unsupported, "0", true},
    {"eta_cutoff", unsupported, "0", true},
    {"exponential_decay_length_penalty", unsupported},
    {"force_words_ids", unsupported},
    {"forced_bos_token_id", honoured},
    {"forced_decoder_ids", unsupported},
    {"forced_eos_token_id", honoured},
    {"guidance_scale", unsupported, "1"},
    {"is_assistant", without_use},
    {"length_penalty", honoured},
    {"low_memory", without_use},
    {"max_cache_len", without_use},
    {"max_length", honoured},
    {"max_matching_ngram_size", without_use},
    {"max_new_tokens", honoured},
    {"max_time", unsupported},
    {"min_length", honoured},
    {"min_new_tokens", honoured},
    {"min_p", honoured},
    {"no_repeat_ngram_size", honoured},
    {"num_assistant_tokens", without_use},
    {"num_assistant_tokens_schedule", without_use},
    {"num_beam_groups", unsupported, "1"},
    {"num_beams", unsupported, "1", false, "--beams"},
    {"num_return_sequences", unsupported, "1", false, "--n"},
    {"output_attentions", without_use},
    {"output_hidden_states", without_use},
    {"output_logits", without_use},
    {"output_scores", without_use},
    {"pad_token_id", without_use},  // sequences are not padded
    {"penalty_alpha", unsupported, "0"},
    {"prefill_chunk_size", without_use},
    {"prompt_lookup_num_tokens", without_use},
    {"remove_invalid_values", without_use},  // NaN is an error
    {"renormalize_logits", without_use},     // tp-infer always normalizes probabilities before sampling
    {"repetition_penalty", honoured},
    {"return_dict_in_generate", without_use},
    {"sequence_bias", honoured},
    {"speculation_type", without_use},
    {"stop_strings", honoured},
    {"suppress_tokens", honoured},
    {"target_lookbehind", without_use},
    {"temperature", honoured},
    {"token_healing", unsupported, "false"},
    {"top_h", unsupported, "null", true},
    {"top_k", honoured},
    {"top_p", honoured},
    {"transformers_version", without_use},
    {"typical_p", unsupported, "1", true},
    {"use_cache", without_use},
    {"use_mtp", without_use},
    {"watermarking_config", unsupported}};

bool changes_texts(const GenerationFieldRule& rule, const JsonNode& field) {
  const nlohmann::json& value = field.value();
  const bool is_empty = (value.is_array() || value.is_object()) && value.empty();
  return !is_empty && value != nlohmann::json::parse(rule.neutral);
}

}  // namespace

std::span<const GenerationFieldRule> generation_fields() { return kFields; }

std::vector<std::string> unsupported_generation_fields(const JsonNode& fields) {
  const bool samples = fields.boolean_or("do_sample", false);
  std::vector<std::string> names;
  for (const GenerationFieldRule& rule : kFields) {
    if (rule.becomes != unsupported || (rule.if_sampling && !samples)) continue;
    const std::optional<JsonNode> field = fields.find(rule.name);
    if (!field || !changes_texts(rule, *field)) continue;
    names.push_back(rule.instead.empty() ? std::string(rule.name)
                                         : fmt::format("{} (give {})", rule.name, rule.instead));
  }
  return names;
}

}  // namespace tp
