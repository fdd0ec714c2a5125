// How diffusion language models generate: several passes fill in masked positions. In each pass the model
// proposes a token for every masked position, and a few of these are settled.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The rule by which a pass chooses the positions that it settles. All rules but `threshold` settle as many as
// the schedule says.
enum class UnmaskRule : std::uint8_t {
  low_confidence,  // positions whose proposal has the highest probability
  margin,          // positions with the largest gap between the two highest probabilities
  entropy,         // positions with the lowest entropy
  threshold,       // all proposals with at least the probability `threshold`, and at least one
  sequential,      // positions in ascending order
};

// Names as on the command line ("low-confidence", ...), and the list of all names.
std::string_view name_of(UnmaskRule rule);
std::optional<UnmaskRule> find_unmask_rule(std::string_view name);
std::vector<std::string> unmask_rules();

// The first pass of a block computes the whole text. Later passes may reuse its keys and values. Any value
// but `exact` is an approximation, because reused tokens don't see tokens that were settled since. Source: Wu
// et al., Fast-dLLM, 2025.
enum class UnmaskCache : std::uint8_t {
  exact,   // nothing is reused
  prefix,  // keys and values of the tokens before the block
  dual,    // keys and values of the tokens before and after the block
};

// Names as on the command line ("exact", ...), and the list of all names.
std::string_view name_of(UnmaskCache cache);
std::optional<UnmaskCache> find_unmask_cache(std::string_view name);
std::vector<std::string> unmask_caches();

struct Unmasking {
  // Total number of passes, divided evenly among the request's blocks; 0: one pass per token. With
  // UnmaskRule::threshold there may be fewer.
  int steps = 0;
  // Tokens of a block. All of them are settled before the next block begins. 0: the model's own block length,
  // if it has one, else max_tokens. A request has max_tokens / block_length blocks, rounded up.
  int block_length = 0;
  UnmaskRule rule = UnmaskRule::low_confidence;
  float threshold = 0.9F;  // in [0, 1]
  // None: EngineOptions::unmask_cache. If the engine's is exact, Engine::submit throws RequestError for any
  // other value.
  std::optional<UnmaskCache> cache{};

  bool operator==(const Unmasking&) const = default;
};

// The measure by which proposals are ranked.
enum class GuessMeasure : std::uint8_t { probability, margin, entropy };

// Settings of the proposal at a position.
struct GuessSettings {
  GuessMeasure measure = GuessMeasure::probability;
  bool filtered = false;    // measures the distribution after temperature, top-k and top-p
  TokenId mask_token = -1;  // never proposed

  bool operator==(const GuessSettings&) const = default;
};

// The token proposed for a position.
struct Guess {
  TokenId id = -1;          // -1: logits are not finite
  double confidence = 0.0;  // greater is better: a probability, a margin, or an entropy in nats, negated
};

// A settled position and its token.
struct SettledToken {
  std::size_t position = 0;  // in the sequence, prompt included
  TokenId id = 0;
};

}  // namespace tp
