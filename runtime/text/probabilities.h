#pragma once

#include <vector>

namespace tp {

// Of a classifier's labels by their scores: of labels that exclude each other they sum to 1; a single label
// has its own, 1 / (1 + exp(-score)).
std::vector<double> probabilities_of(const std::vector<float>& scores);

}  // namespace tp
