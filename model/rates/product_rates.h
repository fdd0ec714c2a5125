// Measures the speed of products with weights in a model's layers.
#pragma once

#include "tp/memory_types.h"

namespace tp {

// A product with T tokens takes about bytes of weights / bytes_per_second + operations /
// operations_per_second.
struct ProductRates {
  double bytes_per_second = 0.0;
  double operations_per_second = 0.0;  // a multiplication and an addition are two operations
};

// Measures products of one token and of many tokens with a matrix of `type` that exceeds all caches, on all
// threads of OpenMP. Takes about a second and 300 MiB. Ranks that share a host should measure at the same
// time.
ProductRates local_product_rates(WeightType type);

}  // namespace tp
