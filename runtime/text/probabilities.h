#pragma once

#include <vector>

namespace tp {

// The probabilities of a classifier's labels, from their scores. Several labels exclude each other, so their
// probabilities sum to 1. A single label has the probability 1 / (1 + exp(-score)).
std::vector<double> probabilities_of(const std::vector<float>& scores);

}  // namespace tp
