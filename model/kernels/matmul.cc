#include "model/kernels/matmul.h"

#include "model/kernels/simd/packed.h"
#include "model/kernels/simd/simd.h"
#include "model/threads.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <cblas.h>

namespace tp::kernels {
namespace {

// Up to here a pass over float32 weights costs memory bandwidth only, so that a product of one's own, which
// reads them once in order, beats a general one, which copies them into panels.
constexpr std::size_t kFewTokens = 8;

// From here on a product is bound by arithmetic, and activations are rounded to bf16 where that doubles its
// rate.
constexpr std::size_t kManyTokens = 16;

// A row of activations followed by zeros up to `padded`, in `buffer` unless it is long enough as it is.
const float* padded_row(TensorView<const float> x, std::size_t row, std::size_t padded, float* buffer) {
  if (padded == x.columns()) return x.row(row);
  std::copy_n(x.row(row), x.columns(), buffer);
  std::fill(buffer + x.columns(), buffer + padded, 0.0F);
  return buffer;
}

// Writes the activations in the form that the weight's type takes to `scratch`, and says where they are.
class Activations {
 public:
  Activations(TensorView<const float> x, const PackedLayout& layout, float* scratch)
      : x_(x), scratch_(scratch) {
    padded_ = layout.padded_in_features();
    product_.in_features = padded_;
    product_.tokens = x.rows();
    switch (layout.type) {
      case WeightType::int8:
      case WeightType::int4:
        quantize();
        break;
      case WeightType::bf16:
        if (packed_kernels().bf16_pairs != nullptr && x.rows() >= kManyTokens) {
          round();
          break;
        }
        [[fallthrough]];
      default:
        pad();
        break;
    }
  }

  const PanelProduct& product() const { return product_; }

 private:
  template <class Body>
  void for_rows(const Body& body) {
    for_thread_parts(x_.rows(), x_.size(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) body(row);
    });
  }

  void pad() {
    product_.x = x_.data();
    product_.x_stride = x_.stride();
    if (padded_ == x_.columns()) return;
    for_rows([&](std::size_t row) { padded_row(x_, row, padded_, scratch_ + row * padded_); });
    product_.x = scratch_;
    product_.x_stride = padded_;
  }

  void round() {
    auto* pairs = reinterpret_cast<std::uint32_t*>(scratch_);
    for_rows([&](std::size_t row) {
      // The second half of a row's space holds its padded copy until the first half holds its pairs.
      std::uint32_t* out = pairs + row * padded_ / 2;
      const float* in = padded_row(x_, row, padded_, scratch_ + x_.rows() * padded_ / 2 + row * padded_);
      packed_kernels().round_pairs(in, padded_, out);
    });
    product_.x_pairs = pairs;
  }

  void quantize() {
    const std::size_t groups = padded_ / PackedLayout::kGroup;
    float* scales = scratch_;
    auto* sums = reinterpret_cast<std::int32_t*>(scales + x_.rows() * groups);
    auto* bytes = reinterpret_cast<std::int8_t*>(sums + x_.rows() * groups);
    float* copies = scratch_ + x_.rows() * (2 * groups + padded_ / 4);
    for_rows([&](std::size_t row) {
      const float* in = padded_row(x_, row, padded_, copies + row * padded_);
      packed_kernels().quantize(in, padded_, bytes + row * padded_, scales + row * groups,
                                sums + row * groups);
    });
    product_.x_bytes = bytes;
    product_.x_scales = scales;
    product_.x_sums = sums;
  }

  TensorView<const float> x_;
  float* scratch_;
  std::size_t padded_ = 0;
  PanelProduct product_{};
};

auto kernel_for(WeightType type, const PanelProduct& product) {
  const PackedKernels& kernels = packed_kernels();
  switch (type) {
    case WeightType::f16:
      return kernels.f16;
    case WeightType::bf16:
      return product.x_pairs != nullptr ? kernels.bf16_pairs : kernels.bf16;
    case WeightType::int8:
      return kernels.int8;
    default:
      return kernels.int4;
  }
}

void multiply_panels(const PackedView& weight, const PanelProduct& all, TensorView<float> y) {
  const PackedLayout& layout = weight.layout;
  const auto kernel = kernel_for(layout.type, all);
  const std::size_t work = layout.out_features * layout.in_features * all.tokens;
  for_thread_parts(layout.panels(), work, [&](std::size_t begin, std::size_t end) {
    PanelProduct part = all;
    part.panels = reinterpret_cast<const unsigned char*>(weight.panel(begin));
    part.panel_bytes = layout.panel_bytes();
    part.count = end - begin;
    part.y = y.data() + begin * PackedLayout::kPanel;
    part.y_stride = y.stride();
    part.out_features = layout.out_features - begin * PackedLayout::kPanel;
    kernel(part);
  });
}

}  // namespace

void matmul(TensorView<const float> x, TensorView<const float> weight, TensorView<float> y) {
  assert(x.columns() == weight.columns() && x.rows() == y.rows() && weight.rows() == y.columns());
  if (y.empty()) return;
  // A rank may own no input feature (more ranks than columns): its addend is zero, and sgemm refuses a width
  // of 0.
  if (x.rows() <= kFewTokens || x.columns() == 0) {
    for_thread_parts(weight.rows(), weight.size() * x.rows(), [&](std::size_t begin, std::size_t end) {
      simd().matvec(weight.row(begin), weight.stride(), end - begin, weight.columns(), x.data(), x.stride(),
                    x.rows(), y.data() + begin, y.stride());
    });
    return;
  }
  const auto blas_size = [](std::size_t size) { return static_cast<blasint>(size); };
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_size(x.rows()), blas_size(weight.rows()),
              blas_size(x.columns()), 1.0F, x.data(), blas_size(x.stride()), weight.data(),
              blas_size(weight.stride()), 0.0F, y.data(), blas_size(y.stride()));
}

void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<float> y) {
  assert(x.columns() == weight.layout.in_features && x.rows() == y.rows() &&
         weight.layout.out_features == y.columns());
  assert(scratch.size() >= matmul_scratch(weight.layout.type, x.rows(), x.columns()));
  if (y.empty()) return;
  if (weight.layout.type == WeightType::f32) return matmul(x, weight.f32(), y);
  multiply_panels(weight, Activations(x, weight.layout, scratch.data()).product(), y);
}

std::size_t matmul_scratch(WeightType type, std::size_t tokens, std::size_t in_features) {
  if (type == WeightType::f32) return 0;
  const std::size_t padded = PackedLayout{type, 0, in_features}.padded_in_features();
  // The converted activations (half of a row's floats at most), and a padded copy of the rows where they need
  // one.
  return tokens * (padded / 2 + (padded == in_features ? 0 : padded));
}

}  // namespace tp::kernels
