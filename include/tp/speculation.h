// Speculation: a cheap source drafts the next tokens, and the model verifies several of them in one step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>

namespace tp {

// The largest value allowed for SpeculationOptions::tokens. It limits a sequence to 16 rows per step.
inline constexpr std::size_t kMaxDraftTokens = 15;

// Sources of draft tokens.
enum class DraftKind : std::uint8_t {
  none,
  ngram,  // tokens that followed an earlier occurrence of the latest tokens, in the prompt or answer
  // A smaller model with the same vocabulary, or a drafter that was trained for the model and reads its
  // residual streams: EAGLE-3, DFlash or DSpark (SpeculationOptions::model).
  model,
  // The multi-token prediction layer in the model's own checkpoint (DeepSeek-V3, GLM-4.5, Qwen3-Next). It
  // reads the model's hidden states.
  mtp,
  // Chosen for each sequence and step: ngram if its draft is likely to be right, else the draft model or the
  // multi-token prediction layer, if there is one.
  automatic,
  custom,  // EngineHooks::draft_source
};

// The ranks that run a draft model or multi-token prediction layer. Other ranks wait for them.
enum class DraftRanks : std::uint8_t {
  automatic,  // the first rank, unless dividing a large draft model saves more time than communication costs
  first,
  all,
};

// Draft tokens never change the generated text: a draft token is kept only if the model chooses the same
// token with the same random draw. Like a larger batch, drafts may change the last bits of logits, except
// with EngineOptions::same_bits.
struct SpeculationOptions {
  DraftKind drafts = DraftKind::none;
  std::size_t tokens = 8;  // maximum per sequence and step, 1 to kMaxDraftTokens
  // Verifies all drafts. By default, a step verifies only drafts that are expected to save time, judging by
  // past acceptance and by step times for 1 to 32 rows, which are measured when the engine opens.
  bool always = false;
  // The draft model or drafter for DraftKind::model and DraftKind::automatic, as in EngineOptions::model.
  // Each rank may read its own copy. The draft model uses the request's random draws, so more draft tokens
  // are accepted.
  std::filesystem::path model{};
  DraftRanks ranks = DraftRanks::automatic;  // with several pipeline stages, always the first rank
  // Capacity of the answer history in tokens; 0: no history, otherwise at least 2. DraftKind::ngram and
  // DraftKind::automatic draft from the history. Each answer is stored with the last 16 tokens of its prompt.
  // 200 bytes are reserved per token; 90 to 180 are used. A full history drops its older half. Response times
  // can reveal that an answer was given before. Requests with a Request::cache_salt, or without
  // `cache_prompt`, therefore neither use the history nor add to it.
  std::size_t draft_history = 0;

  bool operator==(const SpeculationOptions&) const = default;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& drafts& tokens& always& model& ranks& draft_history;
  }
};

// How many draft tokens there were, and how many of them the model accepted.
struct SpeculationCounts {
  std::uint64_t drafts = 0;  // number of drafts, at most one per sequence and step
  // Token counts, by position in the draft.
  std::array<std::uint64_t, kMaxDraftTokens> drafted{};
  std::array<std::uint64_t, kMaxDraftTokens> accepted{};
  // Why the engine stopped using a DraftSource: the message of an exception that it threw, or a description
  // of an invalid draft. Usually empty.
  std::string failure{};

  std::uint64_t drafted_tokens() const {
    return std::accumulate(drafted.begin(), drafted.end(), std::uint64_t{0});
  }
  std::uint64_t accepted_tokens() const {
    return std::accumulate(accepted.begin(), accepted.end(), std::uint64_t{0});
  }
};

}  // namespace tp
