// Parts that encoder-decoders share.
#pragma once

#include "model/config/families/common.h"

namespace tp::families {

// Makes a config that describes the encoder as a separate model.
ModelConfig encoder_config(const ModelConfig& config);

// Makes a stack bidirectional, without an LM head.
void make_encoder(DecoderSpec& spec);

// Adds the encoder to the decoder. Each block gets cross-attention, which equals the block's self-attention
// except for positions.
void add_encoder(DecoderSpec encoder, DecoderSpec& spec);

// Family::defaults and other common settings.
Family seq2seq_like();

}  // namespace tp::families
