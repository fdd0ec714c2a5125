// The keys that tokens see beyond their window: those of global tokens, or of a sequence's outer blocks.
#pragma once

#include "model/kernels/attention_pattern.h"
#include "model/layers/linear/step_context.h"

#include <span>
#include <vector>

namespace tp {

class FarKeys {
 public:
  FarKeys(const kernels::AttentionPattern& pattern, const StepContext& step);

  // The step's, with those keys. Valid as long as this.
  std::span<const kernels::AttentionSpan> spans() const { return spans_; }

 private:
  std::vector<kernels::AttentionSpan> spans_;
  std::vector<std::vector<float>> biases_;  // biases of spans that have such keys
};

}  // namespace tp
