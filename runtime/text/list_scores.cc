#include "runtime/text/list_scores.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tp {
namespace {

// Returns the weight of the prompt's query vector, in [0, 1].
double weight_of(const ListVectors& prompt) {
  double best = -1.0;
  for (const std::vector<float>& document : prompt.documents)
    best = std::max(best, cosine(document, prompt.query));
  return (1.0 + best) / 2.0;
}

std::vector<float> merged_query(const std::vector<ListVectors>& prompts) {
  if (prompts.size() == 1) return prompts.front().query;
  std::vector<double> sum(prompts.front().query.size());
  double weights = 0.0;
  for (const ListVectors& prompt : prompts) {
    const double weight = weight_of(prompt);
    weights += weight;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * prompt.query[i];
  }
  std::vector<float> query;
  for (const double element : sum)
    query.push_back(static_cast<float>(weights == 0.0 ? 0.0 : element / weights));
  return query;
}

}  // namespace

double cosine(const std::vector<float>& one, const std::vector<float>& other) {
  double product = 0.0;
  double squares[2] = {};
  for (std::size_t i = 0; i < one.size(); ++i) {
    product += static_cast<double>(one[i]) * other[i];
    squares[0] += static_cast<double>(one[i]) * one[i];
    squares[1] += static_cast<double>(other[i]) * other[i];
  }
  const double lengths = std::sqrt(squares[0] * squares[1]);
  return lengths == 0.0 ? 0.0 : product / lengths;
}

std::vector<double> list_scores(const std::vector<ListVectors>& prompts) {
  const std::vector<float> query = merged_query(prompts);
  std::vector<double> scores;
  for (const ListVectors& prompt : prompts)
    for (const std::vector<float>& document : prompt.documents) scores.push_back(cosine(document, query));
  return scores;
}

}  // namespace tp
