// What encoder-decoders have in common, to start from.
#pragma once

#include "model/config/families/common.h"

namespace tp::families {

// The encoder's layers, as the config of a model of its own.
ModelConfig encoder_config(const ModelConfig& config);

// Makes a stack one that sees in both directions and ends with its hidden states.
void make_encoder(DecoderSpec& spec);

// Gives all blocks a half that reads the encoder, alike to their own attention but without positions, and the
// decoder that encoder.
void add_encoder(DecoderSpec encoder, DecoderSpec& spec);

// Family::defaults and what else they share.
Family seq2seq_like();

}  // namespace tp::families
