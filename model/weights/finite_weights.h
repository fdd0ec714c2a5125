// The check that a checkpoint's weights are numbers.
//
// Packing calls it for rows that are about to be packed, which therefore come to the cache only once. Later
// nobody can tell: the maximum that is a group's scale hides a NaN, and a spoilt row of the vocabulary spoils
// few texts.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "model/kernels/stored_rows.h"

#include <string>

namespace tp {

// All throw CheckpointError, naming the tensor, if one of its elements is NaN or infinite.
void require_finite(const std::string& tensor, const StoredRows& rows);
void require_finite(const std::string& tensor, const kernels::GroupedRows& rows);
void require_finite(const std::string& tensor, const kernels::QuantizedRows& rows,
                    const kernels::QuantFormat& format);
void require_finite(const std::string& tensor, const kernels::ScaledRows& rows,
                    const kernels::ScaledFormat& format);

}  // namespace tp
