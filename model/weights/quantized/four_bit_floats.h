// Finds weights of 4 bits whose elements are indices of a table: MXFP4, NVFP4 and bitsandbytes' nf4.
#pragma once

#include "model/weights/quantized/quantized_matrices.h"
#include "model/weights/quantized/quantized_parts.h"

#include <string>
#include <string_view>

namespace tp {

// The functions throw CheckpointError if a weight lacks a part, or a part has the wrong shape.

// `name`: of the tensor of bytes, which is [..., out_features, in_features / 32, 16].
QuantizedMatrix mxfp4_matrix(const QuantizedParts& parts, const std::string& name);

// The tensors of a matrix of MXFP4.
struct PackedMxfp4 {
  std::string elements;  // [out_features, in_features / 2]
  std::string scales;    // [out_features, in_features / 32]
};
// compressed-tensors': LAYER.weight_packed and LAYER.weight_scale.
inline PackedMxfp4 compressed_mxfp4(const std::string& layer) {
  return {layer + ".weight_packed", layer + ".weight_scale"};
}
// DeepSeek's: LAYER.weight and LAYER.scale.
inline PackedMxfp4 deepseek_mxfp4(const std::string& layer) { return {layer + ".weight", layer + ".scale"}; }
QuantizedMatrix packed_mxfp4_matrix(const QuantizedParts& parts, const PackedMxfp4& names);

// The scale of the whole matrix is ModelOpt's LAYER.weight_scale_2, or compressed-tensors'
// LAYER.weight_global_scale, whose reciprocal it is.
QuantizedMatrix nvfp4_matrix(const QuantizedParts& parts, const std::string& layer);

// After a weight's name: the description of its layout, as JSON.
inline constexpr std::string_view kNf4State = ".quant_state.bitsandbytes__nf4";
// `name`: of the tensor of bytes, which has the weight's elements row by row.
QuantizedMatrix nf4_matrix(const QuantizedParts& parts, const std::string& name);

}  // namespace tp
