// How fast this machine multiplies by weights, as a model's layers do.
#pragma once

#include "tp/memory_types.h"

namespace tp {

// A product of T tokens takes about bytes of weights / bytes_per_second + operations / operations_per_second.
struct ProductRates {
  double bytes_per_second = 0.0;
  double operations_per_second = 0.0;  // a multiplication and an addition count as two
};

// Measures products of one token and of many with a matrix of this type that no cache holds, with as many
// threads as OpenMP has. Takes about a second and 300 MiB. Ranks that share a host should measure at the same
// time.
ProductRates local_product_rates(WeightType type);

}  // namespace tp
