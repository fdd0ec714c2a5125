// What a model's files say about its texts, beside how tokens are chosen.
#pragma once

#include "tp/token_id.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tp {

// Beam search: the texts with the highest scores are sought, not drawn. The score of a text is the sum of its
// tokens' log-probabilities, divided by (number of generated tokens) ^ length_penalty.
struct BeamSearch {
  enum class Stop : std::uint8_t {
    early,   // as soon as there are as many finished texts as beams
    likely,  // when the best unfinished text, as it is now, scores less than the worst of these
    never    // when no continuation of any length can score more
  };

  int beams = 1;  // texts that are followed at the same time, 1 to kMaxBeams
  float length_penalty = 1.0F;
  Stop stop = Stop::likely;

  static constexpr int kMaxBeams = 256;
};

// From generation_config.json, or else config.json.
struct GenerationDefaults {
  std::optional<TokenId> decoder_start{};  // what an encoder-decoder's decoder begins with
  std::optional<TokenId> forced_first{};   // the first token of every text (forced_bos_token_id)
  std::optional<TokenId> forced_last{};  // the last one of a text that becomes too long (forced_eos_token_id)
  std::vector<std::vector<TokenId>> bad_words{};  // that no text contains (bad_words_ids)
  BeamSearch beams{};
};

}  // namespace tp
