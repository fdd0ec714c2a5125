// Random engines and random requests, equal on every rank.
#pragma once

#include "tests/reference/random.h"
#include "tp/engine.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp::differential {

struct TrialRequest {
  Request request;
  std::size_t arrives = 0;       // step before which the request arrives
  std::size_t cancelled_at = 0;  // step before which it is cancelled; 0: never
};

struct Trial {
  EngineOptions options;
  std::vector<TrialRequest> requests;
  bool stores = false;  // a second engine reads the prompts that the first one stored
};

// The sources of draft tokens that a model allows.
struct DraftChoice {
  bool itself = false;  // the model itself as a draft model
  bool layer = false;   // a multi-token prediction layer
};

// Returns a trial with random settings that must not change a text (chunks, batches, sizes of the cache and
// its blocks, drafts), and random requests. Doesn't load the model.
Trial random_trial(reference::Random& random, std::size_t vocab_size, const DraftChoice& choice);

// Returns one line that describes the options.
std::string describe(const EngineOptions& options);
std::string describe(const Request& request);

}  // namespace tp::differential
