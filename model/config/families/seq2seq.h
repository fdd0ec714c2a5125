// Parts that encoder-decoders share.
#pragma once

#include "model/config/families/common.h"

namespace tp::families {

// Makes a config that describes the encoder as a separate model.
CheckpointConfig encoder_config(const CheckpointConfig& config);

// Makes a stack bidirectional, without an LM head.
void make_encoder(ModelSpec& spec);

// Adds the encoder to the decoder. Each block gets cross-attention, which equals the block's self-attention
// except for positions.
void add_encoder(ModelSpec encoder, ModelSpec& spec);

// Family::defaults and other common settings.
Family seq2seq_like();

}  // namespace tp::families
