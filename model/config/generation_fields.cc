#include "model/config/generation_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr UnsupportedField kUnsupported[] = {{"constraints"},
                                             {"diversity_penalty", "0"},
                                             {"dola_layers"},
                                             {"encoder_no_repeat_ngram_size", "0"},
                                             {"encoder_repetition_penalty", "1"},
                                             {"epsilon_cutoff", "0", true},
                                             {"eta_cutoff", "0", true},
                                             {"exponential_decay_length_penalty"},
                                             {"force_words_ids"},
                                             {"forced_decoder_ids"},
                                             {"guidance_scale", "1"},
                                             {"max_time"},
                                             {"num_beam_groups", "1"},
                                             {"num_beams", "1", false, "--beams"},
                                             {"num_return_sequences", "1", false, "--n"},
                                             {"penalty_alpha", "0"},
                                             {"token_healing", "false"},
                                             {"top_h", "null", true},
                                             {"typical_p", "1", true},
                                             {"watermarking_config"}};

bool changes_texts(const UnsupportedField& rule, const JsonNode& field) {
  const nlohmann::json& value = field.value();
  const bool is_empty = (value.is_array() || value.is_object()) && value.empty();
  return !is_empty && value != nlohmann::json::parse(rule.neutral);
}

}  // namespace

std::span<const UnsupportedField> unsupported_fields() { return kUnsupported; }

std::vector<std::string> unsupported_generation_fields(const JsonNode& fields) {
  const bool samples = fields.boolean_or("do_sample", false);
  std::vector<std::string> names;
  for (const UnsupportedField& rule : kUnsupported) {
    if (rule.if_sampling && !samples) continue;
    const std::optional<JsonNode> field = fields.find(rule.name);
    if (!field || !changes_texts(rule, *field)) continue;
    names.push_back(rule.instead.empty() ? std::string(rule.name)
                                         : fmt::format("{} (give {})", rule.name, rule.instead));
  }
  return names;
}

}  // namespace tp
