// Requests to encoder-decoders.
#pragma once

#include "runtime/protocol/encoded_input.h"
#include "tp/generation_defaults.h"
#include "tp/request.h"

#include <cstddef>
#include <string>

namespace tp {

// Sets the decoder's prompt to the model's first token, unless the request has a decoder prompt or asks only
// about the input. Throws RequestError, with the model's name, if the model's files don't define a first
// token.
void begin_decoder(const GenerationDefaults& defaults, const std::string& model, Request& request);

// Joins the input and the decoder's prompt into one prompt (see EncodedInput), and shifts requested positions
// accordingly. Makes the cache salt unique to this input, because cached keys and values depend on the whole
// input.
EncodedInput lay_out_input(std::size_t block_size, Request& request);

}  // namespace tp
