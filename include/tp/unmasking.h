// How diffusion language models generate: several passes fill in masked positions. In each pass, the model
// proposes a token for every masked position, and a few of these proposals are accepted.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// How a pass chooses the positions to unmask. For all rules except `threshold`, Unmasking::steps determines
// the number of positions per pass.
enum class UnmaskRule : std::uint8_t {
  low_confidence,  // positions whose proposals have the highest probabilities
  margin,          // positions with the largest gap between the two highest probabilities
  entropy,         // positions with the lowest entropy
  threshold,   // positions whose proposals have a probability of at least `threshold`; always at least one
  sequential,  // positions in ascending order
};

// Command-line names ("low-confidence", ...), and the list of all names.
std::string_view name_of(UnmaskRule rule);
std::optional<UnmaskRule> find_unmask_rule(std::string_view name);
std::vector<std::string> unmask_rules();

// Selects the keys and values that later passes over a block reuse from the block's first pass, which
// computes the whole text. Any value but `exact` is an approximation, because reused keys and values don't
// reflect tokens unmasked since the first pass. Source: Wu et al., Fast-dLLM, 2025.
enum class UnmaskCache : std::uint8_t {
  exact,   // nothing is reused
  prefix,  // keys and values of the tokens before the block
  dual,    // keys and values of the tokens before and after the block
};

// Command-line names ("exact", ...), and the list of all names.
std::string_view name_of(UnmaskCache cache);
std::optional<UnmaskCache> find_unmask_cache(std::string_view name);
std::vector<std::string> unmask_caches();

struct Unmasking {
  // Total number of passes, divided evenly among the request's blocks; 0: one pass per token, or the most
  // passes of the model's canvases. UnmaskRule::threshold and canvases may need fewer passes.
  int steps = 0;
  // Tokens per block. All tokens of a block are unmasked before the next block begins. 0: the model's own
  // block length, if it has one, else max_tokens. A request has max_tokens / block_length blocks, rounded up.
  int block_length = 0;
  std::optional<UnmaskRule> rule{};  // unset: low_confidence. Canvases have no rule
  std::optional<float> threshold{};  // in [0, 1]; unset: 0.9
  // Unset: EngineOptions::unmask_cache. If the engine's value is `exact`, Engine::submit throws RequestError
  // for any other value.
  std::optional<UnmaskCache> cache{};
  // Tokens to use instead of a canvas's random tokens, for comparisons with other programs. Each draw of a
  // canvas uses the next element; draws after the last element are random.
  std::vector<std::vector<TokenId>> canvases{};

  bool operator==(const Unmasking&) const = default;
};

// How a model of canvases turns random tokens into text (generation_config.json). Source: Ben-Hamu et al.,
// Accelerated Sampling from Masked Diffusion Models via Entropy Bounded Unmasking, 2025, and DiffusionGemma's
// code.
struct CanvasDefaults {
  std::size_t max_denoising_steps = 48;  // most passes over a canvas
  // The temperature falls from nearly t_max in the first pass to nearly t_min in the last one. A request's
  // temperature multiplies it.
  float t_min = 0.4F;
  float t_max = 0.8F;
  // A pass accepts proposals in the order of their entropies, in nats, until the entropies of the accepted
  // proposals exceed this sum.
  float entropy_bound = 0.1F;
  // A canvas ends early if its most probable tokens have been the same in this many earlier passes, and its
  // mean entropy is below the threshold.
  std::size_t stability_threshold = 1;
  float confidence_threshold = 0.005F;

  bool operator==(const CanvasDefaults&) const = default;
};

// How proposals are ranked.
enum class ProposalMeasure : std::uint8_t { probability, margin, entropy };

// How a token is proposed for a position.
struct ProposalSettings {
  ProposalMeasure measure = ProposalMeasure::probability;
  bool filtered = false;    // whether to apply temperature, top-k and top-p before measuring
  TokenId mask_token = -1;  // never proposed; -1: the model has none
  bool greedy = false;      // propose the most probable token, whatever the temperature

  bool operator==(const ProposalSettings&) const = default;
};

// The token proposed for a position.
struct Proposal {
  TokenId id = -1;          // -1: logits are not finite
  double confidence = 0.0;  // greater is better: a probability, a margin, or a negated entropy in nats
  TokenId best = -1;        // the most probable token, if the measure is the entropy; else -1
};

// An unmasked position and its token; in a canvas, an accepted position and its proposal.
struct UnmaskedToken {
  std::size_t position = 0;  // position in the sequence, including the prompt
  TokenId id = 0;
};

}  // namespace tp
