// Defaults that a model's files set for its texts, apart from sampling.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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
  std::optional<TokenId> decoder_start{};  // first token of an encoder-decoder's decoder
  std::optional<TokenId> forced_first{};   // the first token of every text (forced_bos_token_id)
  std::optional<TokenId> forced_last{};  // the last one of a text that becomes too long (forced_eos_token_id)
  std::vector<std::vector<TokenId>> bad_words{};  // sequences that no text contains (bad_words_ids)
  std::vector<TokenId> suppressed{};        // tokens that no text contains, even as its end (suppress_tokens)
  std::vector<TokenId> suppressed_first{};  // tokens that no text begins with (begin_suppress_tokens)
  std::size_t no_repeat_ngram = 0;          // how long a sequence is that comes once (no_repeat_ngram_size)
  std::vector<std::string> stop{};          // texts that end a text (stop_strings)
  // The least and the most tokens of a text, of which 0 says nothing: generated ones, which count if both
  // are there, or with the prompt.
  std::size_t min_new_tokens = 0;
  std::size_t min_length = 0;
  std::size_t max_new_tokens = 0;
  std::size_t max_length = 0;
  BeamSearch beams{};

  // The least and the largest number of generated tokens after a prompt of `prompt` tokens (an
  // encoder-decoder's: the decoder's prompt). A request's own maximum replaces the largest. There is no
  // maximum if the prompt already exceeds max_length.
  std::size_t min_tokens(std::size_t prompt) const {
    return min_new_tokens != 0 || prompt >= min_length ? min_new_tokens : min_length - prompt;
  }
  std::optional<std::size_t> max_tokens(std::size_t prompt) const {
    if (max_new_tokens != 0) return max_new_tokens;
    return prompt < max_length ? std::optional(max_length - prompt) : std::nullopt;
  }
};

}  // namespace tp
