// A small config for tests to change.
#pragma once

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tp/error.h"

#include <string>

#include <nlohmann/json.hpp>

namespace tp::test {

inline nlohmann::json small_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 160},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"vocab_size", 320},
          {"max_position_embeddings", 256},
          {"torch_dtype", "bfloat16"}};
}

inline CheckpointConfig parse(const nlohmann::json& config) {
  return parse_config(config.dump(), "config.json");
}

inline ModelSpec spec_of(const nlohmann::json& config) { return make_spec(parse(config)); }

inline std::string refusal_of(const nlohmann::json& config) {
  return error_of<ConfigError>([&] { parse(config); });
}

// Returns the error of a config with a missing value or a value of the wrong type.
inline std::string damage_of(const nlohmann::json& config) {
  return error_of<CheckpointError>([&] { parse(config); });
}

inline std::string damage_with(const std::string& field, const nlohmann::json& value) {
  nlohmann::json config = small_config();
  config[field] = value;
  return damage_of(config);
}

inline std::string refusal_with(const std::string& field, const nlohmann::json& value) {
  nlohmann::json config = small_config();
  config[field] = value;
  return refusal_of(config);
}

}  // namespace tp::test
