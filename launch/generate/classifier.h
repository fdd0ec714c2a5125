// Sequences to the scores of a classifier's labels.
#pragma once

#include "launch/generate/sequence_batch.h"

#include <string>
#include <vector>

namespace tp {

// The scores of all labels, of each of the sequences.
std::vector<std::vector<float>> label_scores(Engine& engine, std::vector<NamedRequest> requests,
                                             const std::string& label);

}  // namespace tp
