// The fields of transformers' GenerationConfig that tp-infer does not support.
#pragma once

#include "model/files/json_node.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A field that would change texts.
struct UnsupportedField {
  std::string_view name;
  // The JSON value that has no effect; null never has an effect.
  std::string_view neutral = "null";
  bool if_sampling = false;       // the field has an effect only with do_sample
  std::string_view instead = "";  // advice: the setting to use instead
};

// Sorted by name. Other fields are read by load_generation_config, from the tokenizer's files or config.json,
// or affect computation or generate()'s results, but not texts.
std::span<const UnsupportedField> unsupported_fields();

// The names of unsupported fields whose values would change texts, with advice on alternatives.
std::vector<std::string> unsupported_generation_fields(const JsonNode& fields);

}  // namespace tp
