// How diffusion language models generate: masked positions are filled in over several passes, in each of
// which the model makes a guess for all of them and a few are settled.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Which of the masked positions a pass settles.
enum class UnmaskRule : std::uint8_t {
  low_confidence,  // as many as the schedule says: those whose token has the highest probability,
  margin,          // or the largest distance of the two most likely tokens' probabilities,
  entropy,         // or the lowest entropy
  threshold,       // tokens with at least the probability `threshold`, and at least one token
  sequential,      // as many as the schedule says, in the order of their positions
};

// "low-confidence", ... as on the command line, and all of them.
std::string_view name_of(UnmaskRule rule);
std::optional<UnmaskRule> find_unmask_rule(std::string_view name);
std::vector<std::string> unmask_rules();

// Which keys and values of a block's first pass, which computes the whole text, its later passes use instead
// of computing them. Anything but `exact` approximates: tokens that are not computed again do not see what
// has been settled since. Source: Wu et al., Fast-dLLM, 2025.
enum class UnmaskCache : std::uint8_t {
  exact,   // none
  prefix,  // keys and values of the tokens before the block
  dual,    // keys and values of the tokens before and after the block
};

// "exact", ... as on the command line, and all of them.
std::string_view name_of(UnmaskCache cache);
std::optional<UnmaskCache> find_unmask_cache(std::string_view name);
std::vector<std::string> unmask_caches();

struct Unmasking {
  // Passes, in all, divided evenly among the blocks, of which a request has max_tokens / block_length,
  // rounded up; 0: as many as there are tokens. With a threshold there may be fewer.
  int steps = 0;
  // Tokens that are settled before those that follow them; 0: max_tokens or, where blocks are a part of the
  // model, its own.
  int block_length = 0;
  UnmaskRule rule = UnmaskRule::low_confidence;
  float threshold = 0.9F;  // in [0, 1]
  // None: EngineOptions::unmask_cache. If that is exact, Engine::submit throws RequestError for any other.
  std::optional<UnmaskCache> cache{};

  bool operator==(const Unmasking&) const = default;
};

// The measure by which proposals are ranked.
enum class GuessMeasure : std::uint8_t { probability, margin, entropy };

// Asks for a guess at a position in place of the most likely tokens there.
struct GuessSettings {
  GuessMeasure measure = GuessMeasure::probability;
  bool filtered = false;    // the measure is of the distribution behind temperature, top-k and top-p
  TokenId mask_token = -1;  // never guessed

  bool operator==(const GuessSettings&) const = default;
};

// A token drawn, or chosen, for a position.
struct Guess {
  TokenId id = -1;          // -1: logits are not finite
  double confidence = 0.0;  // greater is better: a probability, a margin, or an entropy in nats, negated
};

// A position that has its token.
struct SettledToken {
  std::size_t position = 0;  // in the sequence, prompt included
  TokenId id = 0;
};

}  // namespace tp
