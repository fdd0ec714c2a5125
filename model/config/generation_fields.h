// The fields of transformers' GenerationConfig, and what becomes of each.
#pragma once

#include "model/files/json_node.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

enum class GenerationField : std::uint8_t {
  honoured,     // by load_generation_config, or wherever the tokenizer's and config.json's are
  without_use,  // says how to compute, or what generate() returns, but changes no text
  unsupported   // changes texts
};

struct GenerationFieldRule {
  std::string_view name;
  GenerationField becomes;
  // The value of an unsupported field, in JSON, that changes nothing, like null.
  std::string_view neutral = "null";
  bool if_sampling = false;       // whether it counts with do_sample only
  std::string_view instead = "";  // what to give in its place
};

// All of them, sorted by name.
std::span<const GenerationFieldRule> generation_fields();

// The names of unsupported fields that have a value which changes texts, and what to give instead.
std::vector<std::string> unsupported_generation_fields(const JsonNode& fields);

}  // namespace tp
