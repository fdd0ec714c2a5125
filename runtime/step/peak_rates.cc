#include "tp/peak_rates.h"

#include "model/rates/peak_rates.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/processors.h"
#include "runtime/setup/rank_report.h"

namespace tp {

PeakRates measure_peak_rates(Communicator& comm, std::size_t threads) {
  fail_together(comm, [&] { set_threads(threads != 0 ? threads : default_threads(comm.placement())); });
  barrier(comm);
  PeakRates local;
  fail_together(comm, [&] { local = local_peak_rates(); });
  reset_peak_memory();
  PeakRates sum;
  for (const PeakRates& rank : gather_values(comm, local)) {
    sum.streaming_bytes_per_second += rank.streaming_bytes_per_second;
    sum.f32_per_second += rank.f32_per_second;
    sum.bf16_per_second += rank.bf16_per_second;
    sum.int8_per_second += rank.int8_per_second;
  }
  return sum;
}

}  // namespace tp
