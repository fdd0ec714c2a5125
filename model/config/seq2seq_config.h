// Reads config.json's fields for encoder-decoders.
#pragma once

#include "model/files/json_node.h"

#include <cstddef>
#include <string>

namespace tp {

struct CheckpointConfig;

// The encoder of an encoder-decoder, whose CheckpointConfig describes the decoder.
struct Seq2SeqConfig {
  std::size_t encoder_layers = 0;
  std::size_t encoder_attention_heads = 0;
  std::size_t encoder_intermediate_size = 0;
  bool gated_mlp = false;        // in both encoder and decoder
  bool scale_embedding = false;  // multiply token vectors by sqrt(hidden_size)

  bool operator==(const Seq2SeqConfig&) const = default;
};

// Call after reading the fields of all models. `where` names the file in errors. Throws ConfigError.
void read_seq2seq(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp
