// Random engines and random requests, equal on every rank. Everything that is random about an engine is an
// Option.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/spec.h"
#include "parallel/shard/slice.h"
#include "tests/reference/random.h"
#include "tp/engine.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp::differential {

inline constexpr std::size_t kLongestPrompt = 48;
inline constexpr std::size_t kLongestAnswer = 24;
inline constexpr std::size_t kLongest = kLongestPrompt + kLongestAnswer;

struct ModelPlace {
  std::string name;                 // "logits/llama-gqa"
  std::filesystem::path path;       // a folder, or a GGUF file
  std::filesystem::path drafter{};  // a trained drafter; empty: none
};

struct TrialModel : ModelPlace {
  CheckpointConfig config;
  ModelSpec spec;
  ModelKind kind = ModelKind::decoder;

  // Whether it generates one token after another from a cache.
  bool is_cached_decoder() const;
  // Whether a copy may have a tokenizer whose tokens are two letters.
  bool may_have_letters() const;
  // Whether a copy may have a multi-token prediction layer.
  bool may_have_layer() const;
  // Whether its trained drafter, or the model itself, can draft its tokens.
  bool has_draft_model() const;
  // The layers that a random adapter changes: their names and shapes.
  std::vector<std::pair<std::string, MatrixShape>> adapted_layers() const;
};

// Chooses a fixture of the project or, in an eighth of the trials, of ../shared/fixtures, if this folder
// exists. Other trials don't depend on this folder.
TrialModel random_model(reference::Random& random);

// How much a number may differ from the reference's, in ascending order.
enum class Effect : std::uint8_t { none, last_bits, rounding };

struct TrialRequest {
  Request request;
  std::size_t arrives = 0;       // step before which the request arrives
  std::size_t cancelled_at = 0;  // step before which it is cancelled; 0: never
};

struct Option;

struct Trial {
  std::size_t ranks = 1;
  EngineOptions options;
  EngineOptions reference;  // one rank, which answers one request at a time
  std::vector<TrialRequest> requests;
  std::vector<const Option*> drawn;  // options that don't have their defaults
  std::string description;           // the model, and the values of `drawn`

  Effect effect() const;
  // The drawn option whose value an error refuses; null: none.
  const Option* refused_by(const std::string& error) const;
};

// A trial whose options are being drawn.
struct Draw {
  reference::Random& random;
  const TrialModel& model;
  Trial& trial;
  EngineOptions& options;  // the trial's, or its reference's

  std::size_t in(std::size_t low, std::size_t high) { return random.integer(low, high); }
  bool one_in(std::size_t count) { return random.integer(0, count - 1) == 0; }
};

// Models that accept an option. Others may refuse it.
struct Models {
  std::string_view name;
  bool (*include)(const TrialModel& model);
};
inline constexpr Models kAll{"all", [](const TrialModel&) { return true; }};

struct Option {
  std::string_view name;    // a field of EngineOptions or Request
  std::string_view values;  // for readers
  bool is_shared;           // the reference has the same value
  Effect effect;            // without same_bits; with it, all options have none
  // Draws a value, and returns its text. Empty: the option keeps its default.
  std::string (*draw)(Draw& draw) = nullptr;
  std::size_t one_in = 1;  // trials per trial that draws it; 20 times as many for other models
  Models models = kAll;
  std::string_view refusal{};  // a part of all errors that refuse it; empty: the name in backquotes
};

// In the order in which trials draw them.
std::span<const Option> all_options();

// The table of all options in the guide.
std::string table_of_options();

// Doesn't load the model. Paths of folders that the trial needs are only placeholders.
Trial random_trial(reference::Random& random, const TrialModel& model, std::size_t max_ranks);

// Returns one line that describes the request.
std::string describe(const Request& request);

}  // namespace tp::differential
