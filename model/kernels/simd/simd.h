// The inner loops that are compiled once for every instruction set.
//
// simd_kernels.cc is compiled several times, each with other machine flags and its own namespace. It must not
// use inline functions of the standard library: the linker would keep one copy, perhaps one that an older
// machine cannot run. So these signatures are plain pointers, and the typed kernels beside this folder are
// what others call.
#pragma once

#include <cstddef>

namespace tp::kernels {

struct SimdKernels {
  // y[o] = sum over i of x[i] * weight[o * w_stride + i].
  void (*matvec)(const float* weight, std::size_t w_stride, std::size_t out_features, std::size_t in_features,
                 const float* x, float* y);
  // Rotates the pairs (x[i], x[i + half]) by the angles whose cosines and sines are given.
  void (*rotate_halves)(float* x, const float* cosine, const float* sine, std::size_t half);
};

// The kernels of the active instruction set.
const SimdKernels& simd();

}  // namespace tp::kernels
