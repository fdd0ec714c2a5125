// Speculation: tokens are guessed ahead, and several are then verified in one step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>

namespace tp {

// The maximum of SpeculationOptions::tokens: with them, a sequence has 16 rows in a step.
inline constexpr std::size_t kMaxDraftTokens = 15;

// Sources of draft tokens.
enum class DraftKind : std::uint8_t {
  none,
  ngram,  // tokens that followed the last tokens earlier in the prompt or the answer
  model,  // a smaller model with the same vocabulary, SpeculationOptions::model
  // The layer for multi-token prediction that the model's own checkpoint has beside its layers (DeepSeek-V3,
  // GLM-4.5, Qwen3-Next): it reads the model's hidden states.
  mtp,
  // For every sequence and step ngram, where that is likely to be right, else the model if there is one, or
  // the layer of mtp if the checkpoint has it.
  automatic,
  custom,  // EngineOptions::draft_source
};

// Which ranks run a draft model, or the layer of mtp; the others wait for them.
enum class DraftRanks : std::uint8_t {
  automatic,  // the first one, unless the model is so large that dividing it saves more than messages cost
  first,
  all,
};

// Draft tokens never change a text: one is kept only if it is the token that the model chooses there, with
// the same draw. As with a larger batch, the last bits of logits may differ from those without drafts, except
// with EngineOptions::same_bits.
struct SpeculationOptions {
  DraftKind drafts = DraftKind::none;
  std::size_t tokens = 8;  // maximum per sequence and step, 1 to kMaxDraftTokens
  // Whether a step has all drafts that there are. Else it has those that pay, by how often such were accepted
  // before, and by the time that steps of 1 to 32 rows take, which is measured when the engine is opened.
  bool always = false;
  // The draft model for DraftKind::model and automatic, as in EngineOptions::model. A rank may read its own
  // copy. It samples with the request's random draws, so that it agrees more often than by chance.
  std::filesystem::path model{};
  DraftRanks ranks = DraftRanks::automatic;  // with `pipeline` always the first one
  // Number of tokens of earlier answers that DraftKind::ngram and automatic remember and guess from (each
  // answer with the last 16 tokens of its prompt); 0: none, otherwise at least 2. A token takes 90 to 180
  // bytes; 200 are reserved. When the history is full, its older half is dropped. Timing can reveal that an
  // answer was given before: requests with a Request::cache_salt, or without `cache_prompt`, neither use the
  // history nor add to it.
  std::size_t draft_history = 0;
};

// Counts of draft tokens and their outcome.
struct SpeculationCounts {
  std::uint64_t drafts = 0;  // in how many steps a sequence had some
  // By place in the draft: how many there were, and how many of them were kept.
  std::array<std::uint64_t, kMaxDraftTokens> drafted{};
  std::array<std::uint64_t, kMaxDraftTokens> accepted{};
  // The exception of a DraftSource, or the fault in its drafts, after which it is not asked any more. Usually
  // empty.
  std::string failure{};

  std::uint64_t drafted_tokens() const {
    return std::accumulate(drafted.begin(), drafted.end(), std::uint64_t{0});
  }
  std::uint64_t accepted_tokens() const {
    return std::accumulate(accepted.begin(), accepted.end(), std::uint64_t{0});
  }
};

}  // namespace tp
