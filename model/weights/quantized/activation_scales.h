// Tensors by which other programs quantize activations and the KV cache. tp-infer ignores them.
#pragma once

#include "model/files/split_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tp {

// Names from compressed-tensors, ModelOpt, AutoFP8, Quark and vLLM. Each is the last part of a tensor's name,
// which may begin with the name of a projection or attention layer.
inline bool is_activation_scale(std::string_view tensor) {
  static const std::vector<std::string_view> names = split_text(
      "input_scale output_scale input_zero_point output_zero_point input_scale_ub input_global_scale "
      "output_global_scale q_scale k_scale v_scale kv_scale prob_scale q_zero_point k_zero_point "
      "v_zero_point q_global_scale k_global_scale v_global_scale prob_output_scale q_output_scale "
      "k_output_scale v_output_scale kv_cache_scaling_factor activation_scaling_factor");
  const std::string_view last = tensor.substr(tensor.rfind('.') + 1);
  return std::ranges::find(names, last) != names.end();
}

}  // namespace tp
