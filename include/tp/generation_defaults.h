// A model's default settings for generation, except for sampling.
#pragma once

#include "tp/token_id.h"
#include "tp/unmasking.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Beam search finds the texts with the highest scores instead of drawing tokens. The score of a text is the
// sum of its tokens' log-probabilities, divided by (number of generated tokens) ^ length_penalty.
struct BeamSearch {
  enum class Stop : std::uint8_t {
    early,   // as soon as `beams` texts have finished
    likely,  // when the best unfinished text currently scores less than the worst finished text
    never    // when no continuation of any length can score higher
  };

  int beams = 1;  // number of texts extended in parallel, 1 to kMaxBeams
  float length_penalty = 1.0F;
  Stop stop = Stop::likely;

  static constexpr int kMaxBeams = 256;
};

// Defaults from generation_config.json, or else from config.json.
struct GenerationDefaults {
  std::optional<TokenId> decoder_start{};  // first token of an encoder-decoder's decoder
  std::optional<TokenId> forced_first{};   // first token of every text (forced_bos_token_id)
  std::optional<TokenId> forced_last{};  // last token of a text that reaches its limit (forced_eos_token_id)
  std::vector<std::vector<TokenId>> bad_words{};  // token sequences that are never generated (bad_words_ids)
  // Tokens that are never generated, not even as the last token (suppress_tokens).
  std::vector<TokenId> suppressed{};
  std::vector<TokenId> suppressed_first{};  // tokens that never begin a text (begin_suppress_tokens)
  std::size_t no_repeat_ngram = 0;          // length of token runs that never repeat (no_repeat_ngram_size)
  std::vector<std::string> stop{};          // strings that end a text (stop_strings)
  // Limits on the length of a text in tokens; 0: none. `min_new_tokens` and `max_new_tokens` count generated
  // tokens and take precedence; `min_length` and `max_length` include the prompt.
  std::size_t min_new_tokens = 0;
  std::size_t min_length = 0;
  std::size_t max_new_tokens = 0;
  std::size_t max_length = 0;
  BeamSearch beams{};
  CanvasDefaults canvas{};  // for models of canvases

  // Limits on the number of generated tokens after a prompt of `prompt` tokens (for an encoder-decoder, the
  // decoder's prompt). A request's own maximum replaces max_tokens. There is no maximum if the prompt already
  // has max_length tokens or more.
  std::size_t min_tokens(std::size_t prompt) const {
    return min_new_tokens != 0 || prompt >= min_length ? min_new_tokens : min_length - prompt;
  }
  std::optional<std::size_t> max_tokens(std::size_t prompt) const {
    if (max_new_tokens != 0) return max_new_tokens;
    return prompt < max_length ? std::optional(max_length - prompt) : std::nullopt;
  }
};

}  // namespace tp
