// Checks that a checkpoint's weights are finite.
//
// Packing checks rows right before packing them, so that they are loaded to the cache only once. A later
// check would miss errors: the maximum that becomes a group's scale hides a NaN, and a damaged row of the
// vocabulary affects few texts.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "model/kernels/stored_rows.h"
#include "model/weights/source/weight_source.h"

#include <string>

namespace tp {

// All throw CheckpointError, naming the tensor as in the files, if an element is NaN or infinite.
void require_finite(const WeightSource& source, const std::string& tensor, const StoredRows& rows);
void require_finite(const WeightSource& source, const std::string& tensor, const kernels::GroupedRows& rows);
void require_finite(const WeightSource& source, const std::string& tensor, const kernels::QuantizedRows& rows,
                    const kernels::QuantFormat& format);
void require_finite(const WeightSource& source, const std::string& tensor, const kernels::ScaledRows& rows,
                    const kernels::ScaledFormat& format);

}  // namespace tp
