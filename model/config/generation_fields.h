// The fields of transformers' GenerationConfig, and how tp-infer treats each field.
#pragma once

#include "model/files/json_node.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

enum class GenerationField : std::uint8_t {
  honoured,     // read by load_generation_config, or from the tokenizer's files or config.json
  without_use,  // affects computation or generate()'s results, but not texts
  unsupported   // would change texts
};

struct GenerationFieldRule {
  std::string_view name;
  GenerationField becomes;
  // The JSON value of an unsupported field that has no effect; null never has an effect.
  std::string_view neutral = "null";
  bool if_sampling = false;       // the field has an effect only with do_sample
  std::string_view instead = "";  // advice: the setting to use instead
};

// All fields, sorted by name.
std::span<const GenerationFieldRule> generation_fields();

// The names of unsupported fields whose values would change texts, with advice on alternatives.
std::vector<std::string> unsupported_generation_fields(const JsonNode& fields);

}  // namespace tp
