// Random engines and random requests, drawn alike on every rank.
#pragma once

#include "tests/reference/random.h"
#include "tp/engine.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp::differential {

struct TrialRequest {
  Request request;
  std::size_t arrives = 0;       // before this step
  std::size_t cancelled_at = 0;  // before this step; 0: never
};

struct Trial {
  EngineOptions options;
  std::vector<TrialRequest> requests;
  bool stores = false;  // a second engine reads the prompts that the first one stored
};

// The sources that guess tokens of a model.
struct DraftChoice {
  bool itself = false;  // as a draft model
  bool layer = false;   // for multi-token prediction
};

// Everything that must not change a text is random: chunks, batch mates, the size of the cache and of its
// blocks, guesses; and so is what the requests ask for. Without a model.
Trial random_trial(reference::Random& random, std::size_t vocab_size, const DraftChoice& choice);

// One line that says what was asked.
std::string describe(const EngineOptions& options);
std::string describe(const Request& request);

}  // namespace tp::differential
