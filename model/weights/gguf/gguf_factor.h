// Factors of NVFP4 matrices. The factor of NAME.weight is the tensor NAME.scale, with a number for each
// expert if NAME.weight is a stack. NAME.input_scale is for activations, and is not used.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_type.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>

namespace tp {

// The factor of a tensor's values, or of an expert's. 1 if there is none. Throws CheckpointError if the
// tensor with the factors has another type or size.
float factor_of(const GgufFiles& files, const GgufTensor& tensor, std::optional<std::size_t> expert);

// The matrix to which a tensor's factors, or those of its activations, belong; null for other tensors.
const GgufTensor* matrix_of_factors(const GgufFiles& files, const GgufTensor& tensor);

// Like dequantize in gguf_dequantize.h, with a factor.
void dequantize(const GgufType& type, const std::byte* row, Range columns, float factor, float* out);

// Sets the factor of all rows of NVFP4.
void set_factor(float factor, const kernels::QuantizedRows& rows);

}  // namespace tp
