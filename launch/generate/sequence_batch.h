// Many sequences at once, of which something is asked.
#pragma once

#include "tp/engine.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tp {

// A request, and what errors call it.
struct NamedRequest {
  Request request;
  std::string name;
};

// Runs all of them with a progress bar: the longest first, so that steps are filled with shorter ones.
// on_event(index, event) is called in any order of indices. Throws RequestError, naming the request, if one
// cannot be served.
void run_sequences(Engine& engine, std::vector<NamedRequest> requests, const std::string& label,
                   const std::function<void(std::size_t index, const Event&)>& on_event);

// The pooled hidden states of all of them, in order.
std::vector<std::vector<float>> pooled_states(Engine& engine, std::vector<NamedRequest> requests,
                                              const std::string& label);

// A classifier's scores of all labels, for each sequence, in order.
std::vector<std::vector<float>> label_scores(Engine& engine, std::vector<NamedRequest> requests,
                                             const std::string& label);

}  // namespace tp
