// Options for choosing tokens.
#pragma once

#include "tp/request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// The default of --max-tokens for models whose files give none.
inline constexpr int kDefaultMaxTokens = 256;

// Sampling options from the command line. Missing ones come from the model's generation_config.json.
struct SamplingFlags {
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<std::uint64_t> seed;
  std::optional<int> logprobs;
  int beams = 1;
  std::optional<float> length_penalty;
  std::optional<std::string> early_stopping;
  bool greedy = false;
  std::optional<int> max_tokens;
  int n = 1;
  bool ignore_eos = false;
  int min_tokens = 0;
  std::optional<int> max_thinking_tokens;
  std::vector<std::string> stop;
  bool include_stop = false;
  std::vector<std::string> bad_words;

  // Adds the options of all commands that generate text, or the options of commands that list results.
  void add_to(CLI::App& command);
  void add_result_options_to(CLI::App& command);
  // For commands that hold conversations.
  void add_thinking_option_to(CLI::App& command);

  // Throws CLI::ValidationError for a value out of range. Needs no model.
  void check() const;

  // Returns a request with these settings and no prompt.
  Request make_request(const SamplingParams& defaults, const BeamSearch& beam_defaults = {}) const;

 private:
  std::optional<BeamSearch> beam_search(const BeamSearch& defaults) const;
};

// --max-thinking-tokens
void add_thinking_option(CLI::App& command, std::optional<int>& target, const std::string& group);

}  // namespace tp
