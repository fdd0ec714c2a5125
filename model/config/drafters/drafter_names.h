// The tensors of a trained drafter outside of its blocks' usual parts.
#pragma once

#include <string>

namespace tp {

struct DrafterNames {
  std::string projection;      // projection of the target's streams
  std::string stream_norms{};  // norms of single streams, followed by their numbers: "fc_norm."
  std::string all_streams_norm{};
  std::string embedding_norm{};  // norm of the token's vector
  std::string state_norm{};      // norm of the projected streams
  std::string markov_input{};    // vectors of the tokens before draft tokens
  std::string markov_output{};   // addends of the logits, by these vectors
  std::string confidence{};      // layer that estimates whether draft tokens are accepted
};

}  // namespace tp
