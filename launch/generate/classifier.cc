#include "launch/generate/classifier.h"

#include <utility>

namespace tp {

std::vector<std::vector<float>> label_scores(Engine& engine, std::vector<NamedRequest> requests,
                                             const std::string& label) {
  for (NamedRequest& named : requests) named.request.pooling = engine.info().head_pooling;
  std::vector<std::vector<float>> scores = pooled_states(engine, std::move(requests), label);
  for (std::vector<float>& state : scores) state = engine.sequence_head(std::move(state));
  return scores;
}

}  // namespace tp
