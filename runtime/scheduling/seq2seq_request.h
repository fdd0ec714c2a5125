// Requests to encoder-decoders.
#pragma once

#include "runtime/protocol/encoded_input.h"
#include "tp/generation_defaults.h"
#include "tp/request.h"

#include <cstddef>
#include <string>

namespace tp {

// Sets the decoder's prompt to the model's decoder start token, unless the request has a decoder prompt or
// asks only about the input. Throws RequestError if the model's files define no such token. `model`: the
// model's name, for the error message.
void begin_decoder(const GenerationDefaults& defaults, const std::string& model, Request& request);

// Joins the input and the decoder's prompt into one prompt (see EncodedInput), and shifts requested positions
// accordingly. Makes the cache salt unique to this input, because cached keys and values depend on the whole
// input.
EncodedInput lay_out_input(std::size_t block_size, Request& request);

}  // namespace tp
