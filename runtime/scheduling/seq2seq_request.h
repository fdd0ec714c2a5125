// Requests to encoder-decoders.
#pragma once

#include "runtime/protocol/encoded_input.h"
#include "tp/generation_defaults.h"
#include "tp/request.h"

#include <cstddef>
#include <string>

namespace tp {

// Gives the decoder the model's first token, unless the request has others, or asks about the input only.
// Throws RequestError, naming the model, if nobody says with which.
void begin_decoder(const GenerationDefaults& defaults, const std::string& model, Request& request);

// Makes the input and the decoder's prompt one prompt, as EncodedInput has it, and positions that are asked
// about positions of that. Its salt becomes one that no other input has, as what the cache holds of a token
// depends on the whole input.
EncodedInput lay_out_input(std::size_t block_size, Request& request);

}  // namespace tp
