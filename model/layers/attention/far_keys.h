// Keys that are visible from any distance: keys of global tokens, or of a sequence's first and last blocks.
#pragma once

#include "model/kernels/attention_pattern.h"
#include "model/layers/linear/step_context.h"

#include <span>
#include <vector>

namespace tp {

class FarKeys {
 public:
  FarKeys(const kernels::AttentionPattern& pattern, const StepContext& step);

  // The step's spans. Spans with far keys have key biases. The result is valid while this object exists.
  std::span<const kernels::AttentionSpan> spans() const { return spans_; }

 private:
  std::vector<kernels::AttentionSpan> spans_;
  std::vector<std::vector<float>> biases_;  // key biases of the spans with far keys
};

}  // namespace tp
