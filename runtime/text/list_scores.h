// Scores of a listwise reranker: cosines of the vectors of documents and of their query.
#pragma once

#include <vector>

namespace tp {

// The cosine of the angle between two vectors of the same size; 0 if one of them is 0.
double cosine(const std::vector<float>& one, const std::vector<float>& other);

// The vectors that a model makes of one prompt.
struct ListVectors {
  std::vector<std::vector<float>> documents;
  std::vector<float> query;
};

// The scores of all documents of a query, whose list may be divided among several prompts. Each prompt has
// its own vector of the query. The vector that counts is their mean, weighted by the best score of each
// prompt, moved to the range from 0 to 1. Source: the code of Jina Reranker 3.
std::vector<double> list_scores(const std::vector<ListVectors>& prompts);

}  // namespace tp
