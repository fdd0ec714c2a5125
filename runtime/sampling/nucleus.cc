#include "runtime/sampling/nucleus.h"

#include <limits>

namespace tp {

float inverse_temperature(float temperature) {
  return std::min(1.0F / temperature, std::numeric_limits<float>::max());
}

MassBucket find_bucket(std::span<const double> masses, double before, double target) {
  MassBucket last{0, before};
  double sum = before;
  for (std::size_t bucket = 0; bucket < masses.size(); ++bucket) {
    if (masses[bucket] == 0.0) continue;
    last = {bucket, sum};
    sum += masses[bucket];
    if (sum >= target) break;
  }
  return last;
}

}  // namespace tp
