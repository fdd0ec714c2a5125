// Evaluates many sequences at the same time.
#pragma once

#include "tp/engine.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tp {

// A request with its name for errors.
struct NamedRequest {
  Request request;
  std::string name;
};

// Runs all requests with a progress bar: the longest first, so that shorter ones fill the steps. Calls
// on_event(index, event) in any order of indices. Throws RequestError with the request's name if it can't be
// served.
void run_sequences(Engine& engine, std::vector<NamedRequest> requests, const std::string& label,
                   const std::function<void(std::size_t index, const Event&)>& on_event);

// Returns the pooled hidden states of all sequences, in order.
std::vector<std::vector<float>> pooled_states(Engine& engine, std::vector<NamedRequest> requests,
                                              const std::string& label);

// Returns a classifier's scores of all labels for each sequence, in order.
std::vector<std::vector<float>> label_scores(Engine& engine, std::vector<NamedRequest> requests,
                                             const std::string& label);

}  // namespace tp
