// The inner loop of Mamba-1's recurrence, for simd_kernels.cc.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/exp.h"
#include "model/kernels/simd/vector/partial.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

// log(1 + exp(x)) = max(x, 0) + log(1 + t), where t = exp(-|x|). log(1 + t) = 2 atanh(s), where s = t / (2 +
// t) is at most 1/3. Taylor's series of atanh has an error of about 2e-9 here.
inline FloatRegister softplus(const FloatRegister& x) {
  const FloatRegister zero{};
  const FloatRegister t = fast_exp(smaller(x, zero - x));
  const FloatRegister s = t / (t + 2.0F);
  const FloatRegister squared = s * s;
  FloatRegister series = squared * (1.0F / 15.0F) + 1.0F / 13.0F;
  series = series * squared + 1.0F / 11.0F;
  series = series * squared + 1.0F / 9.0F;
  series = series * squared + 1.0F / 7.0F;
  series = series * squared + 1.0F / 5.0F;
  series = series * squared + 1.0F / 3.0F;
  return larger(zero, x) + 2.0F * (s * squared * series + s);
}

// A channel's results don't depend on its lane, nor on the other lanes, so ranks may divide channels
// anywhere.
void scan_channels(const ChannelScan& scan) {
  const Vector direct = load(scan.direct);
  for (std::size_t token = 0; token < scan.tokens; ++token) {
    const float* const b = scan.b + token * scan.b_stride;
    const float* const c = scan.c + token * scan.c_stride;
    const Vector x = load_some(scan.x + token * scan.x_stride, scan.channels);
    Vector step = load_some(scan.step + token * scan.step_stride, scan.channels);
    Vector added;
    Vector sum;
    for (std::size_t i = 0; i < kParts; ++i) {
      step.part[i] = softplus(step.part[i]);
      added.part[i] = step.part[i] * x.part[i];
      sum.part[i] = direct.part[i] * x.part[i];
    }
    for (std::size_t n = 0; n < scan.state_size; ++n) {
      const Vector rate = load(scan.rate + n * kLanes);
      Vector state = load(scan.state + n * kLanes);
      for (std::size_t i = 0; i < kParts; ++i) {
        const FloatRegister decay = fast_exp(FloatRegister{} - step.part[i] * rate.part[i]);
        state.part[i] = state.part[i] * decay + added.part[i] * b[n];
        sum.part[i] += state.part[i] * c[n];
      }
      store(state, scan.state + n * kLanes);
    }
    store_some(sum, scan.channels, scan.out + token * scan.out_stride);
  }
}

}  // namespace
}  // namespace tp::kernels
