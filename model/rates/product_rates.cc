#include "model/rates/product_rates.h"

#include "model/kernels/matmul.h"
#include "model/weights/local_weight.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/machine/stopwatch.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tp {
namespace {

constexpr std::size_t kInFeatures = 4096;
constexpr std::size_t kBytes = std::size_t{256} << 20;

// A matrix of `out_features` rows. Only the first panels are made; the others are copies.
LocalWeight make_weight(WeightType type, std::size_t out_features) {
  constexpr std::size_t kRows = 4 * kernels::PackedLayout::kPanel;
  LocalWeight weight(type, out_features, kInFeatures);
  std::vector<float> rows(kRows * kInFeatures);
  const MatrixShape shape{kRows, kInFeatures};
  const TensorView<float> view(rows.data(), kRows, kInFeatures);
  SyntheticWeights(DType::f32).read("weight", shape, TensorSlice::whole(shape), view);
  weight.pack(0, StoredRows::of(view));
  const kernels::PackedLayout& layout = weight.layout();
  const std::size_t made = kRows / kernels::PackedLayout::kPanel;
  const auto panels = static_cast<std::ptrdiff_t>(layout.panels());
  // The threads that multiply by panels also write them, so that pages lie nearby.
#pragma omp parallel for schedule(static)
  for (std::ptrdiff_t panel = static_cast<std::ptrdiff_t>(made); panel < panels; ++panel) {
    const auto index = static_cast<std::size_t>(panel);
    std::memcpy(weight.memory().data() + layout.place_of_panel(index),
                weight.memory().data() + layout.place_of_panel(index % made), layout.panel_bytes());
  }
  return weight;
}

// Median seconds of a product, over at least three tries that take about `budget` seconds.
double seconds_of(const LocalWeight& weight, std::size_t tokens, double budget) {
  std::vector<float> in(tokens * kInFeatures);
  const TensorView<float> x(in.data(), tokens, kInFeatures);
  SyntheticWeights(DType::f32, 1)
      .read("x", {tokens, kInFeatures}, TensorSlice::whole({tokens, kInFeatures}), x);
  std::vector<float> out(tokens * weight.out_features());
  std::vector<float> scratch(weight.scratch_floats(tokens));
  const auto multiply = [&] {
    weight.multiply_into(x, {scratch.data(), 1, scratch.size()}, {out.data(), tokens, weight.out_features()});
  };
  multiply();
  std::vector<double> times;
  for (const Stopwatch whole; times.size() < 3 || whole.seconds() < budget;) {
    const Stopwatch watch;
    multiply();
    times.push_back(watch.seconds());
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

}  // namespace

ProductRates local_product_rates(WeightType type) {
  constexpr std::size_t kManyTokens = 256;
  constexpr std::size_t kOutFeatures = 2048;  // rows of the matrix for many tokens
  const kernels::PackedLayout panel{type, kernels::PackedLayout::kPanel, kInFeatures};
  const LocalWeight large = make_weight(type, kBytes / panel.bytes() * kernels::PackedLayout::kPanel);
  const double one = seconds_of(large, 1, 0.3);
  const LocalWeight small = make_weight(type, kOutFeatures);
  const double many = seconds_of(small, kManyTokens, 0.3);
  ProductRates rates{.bytes_per_second = static_cast<double>(large.bytes()) / one};
  const double reading = static_cast<double>(small.bytes()) / rates.bytes_per_second;
  rates.operations_per_second = 2.0 * static_cast<double>(kManyTokens * kOutFeatures * kInFeatures) /
                                std::max(many - reading, 0.1 * many);
  return rates;
}

}  // namespace tp
