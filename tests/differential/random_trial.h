// Random engines and random requests, drawn alike on every rank.
#pragma once

#include "tests/reference/random.h"
#include "tp/engine.h"

#include <cstddef>
#include <filesystem>
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
};

// Everything that must not change a text is random: chunks, batch mates, the size of the cache and of its
// blocks; and so is what the requests ask for.
Trial random_trial(reference::Random& random, const std::filesystem::path& model, std::size_t vocab_size);

// One line that says what was asked.
std::string describe(const EngineOptions& options);
std::string describe(const Request& request);

}  // namespace tp::differential
