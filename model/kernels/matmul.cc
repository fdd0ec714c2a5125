#include "model/kernels/matmul.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/matmul_operands.h"
#include "model/kernels/openblas.h"
#include "model/kernels/simd/elementwise.h"
#include "model/kernels/simd/isa.h"
#include "model/kernels/simd/matmul/packed.h"
#include "model/kernels/simd/tiles/tile_product.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include <omp.h>

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = PackedLayout::kPanel;

// The arithmetic of a matmul.
enum class Path { floats, pairs, bytes, tiles, blas };

bool is_integer(WeightType type) {
  return type == WeightType::int8 || type == WeightType::int4 || quant_format(type) != nullptr;
}

bool has_pairs() { return packed_kernels().bf16_pairs != nullptr && bf16_pairs_are_fast(); }

// Up to this many tokens, reading the weights takes as long as multiplying them in the type's own arithmetic,
// which is more exact. For more tokens, activations are rounded to bf16 if that is faster. Tiles of bf16 take
// the same time for 5 tokens as for 16, but other types must first be converted to bf16. Pairs are multiplied
// twice as fast as floats.
std::size_t few_tokens(WeightType type) {
  if (is_integer(type)) return tile_kernels() == nullptr ? kMaxFewTokens : 12;
  if (tile_kernels() == nullptr) return type == WeightType::bf16 && has_pairs() ? 2 : 8;
  return type == WeightType::f16 ? kMaxFewTokens : type == WeightType::bf16 ? 4 : 8;
}

// FP8 is exact in bf16, so pairs are used for any number of tokens; float32 activations would only be slower.
bool has_scaled_pairs(WeightType type) {
  return type == WeightType::f8_e4m3 && scaled_kernels().multiply_pairs != nullptr && has_pairs();
}

// The path for any number of tokens, with same_bits.
Path only_path(WeightType type) {
  if (is_integer(type)) return Path::bytes;
  if (type != WeightType::bf16) return Path::floats;
  return tile_kernels() != nullptr ? Path::tiles : has_pairs() ? Path::pairs : Path::floats;
}

Path path_of(const PackedLayout& weight, std::size_t tokens) {
  const WeightType type = weight.type;
  if (weight.same_bits) return only_path(type);
  if (has_scaled_pairs(type)) return Path::pairs;
  const bool many = tokens > few_tokens(type);
  if (many && type != WeightType::f32 && tile_kernels() != nullptr) return Path::tiles;
  // OpenBLAS supports processors for which only portable kernels exist here.
  if (many && active_isa() == Isa::portable) return Path::blas;
  if (is_integer(type)) return Path::bytes;
  return many && type == WeightType::bf16 && has_pairs() ? Path::pairs : Path::floats;
}

auto kernel_of(WeightType type, Path path) {
  const PackedKernels& kernels = packed_kernels();
  if (is_scaled(type))
    return path == Path::pairs ? scaled_kernels().multiply_pairs : scaled_kernels().multiply;
  switch (type) {
    case WeightType::f32:
      return kernels.f32;
    case WeightType::f16:
      return kernels.f16;
    case WeightType::bf16:
      return path == Path::pairs ? kernels.bf16_pairs : kernels.bf16;
    case WeightType::int8:
      return kernels.int8;
    case WeightType::int4:
      return quant_kernels().multiply_int4;
    default:
      return quant_kernels().multiply;
  }
}

auto tile_kernel_of(WeightType type) {
  const TileKernels& kernels = *tile_kernels();
  if (is_scaled(type)) return kernels.scaled;
  switch (type) {
    case WeightType::f16:
      return kernels.f16;
    case WeightType::bf16:
      return kernels.bf16;
    case WeightType::int8:
      return kernels.int8;
    case WeightType::int4:
      return kernels.int4;
    case WeightType::f32:
      std::abort();  // path_of chooses no tiles for f32
    default:
      return kernels.quantized;
  }
}

template <class Product>
void set_results(Product& product, float* y) {
  product.y = y;
}
template <class Product>
void set_results(Product& product, double* y) {
  product.sums = y;
}

// Each thread multiplies its part of the first `panels` panels. start(part) may set further fields of its
// part.
template <class Product, class Result, class Kernel, class Start>
void multiply_panels(const PackedView& weight, std::size_t panels, const Product& all, std::size_t tokens,
                     TensorView<Result> y, const Kernel& kernel, const Start& start) {
  const PackedLayout& layout = weight.layout;
  const std::size_t work = layout.out_features * layout.in_features * tokens;
  for_thread_parts(panels, work, [&](std::size_t begin, std::size_t end) {
    Product part = all;
    part.panels = reinterpret_cast<const unsigned char*>(weight.panel(begin));
    part.panel_bytes = layout.panel_bytes();
    part.count = end - begin;
    part.tokens = tokens;
    if (y.data() != nullptr) set_results(part, y.data() + begin * kPanel);
    part.y_stride = y.stride();
    part.out_features = y.columns() - begin * kPanel;
    start(part);
    kernel(part);
  });
}

// A matmul with the first `panels` panels on the matrix unit, with the other fields of `settings`. Each
// thread has its part of `scratch`.
template <class Result>
void multiply_tiles(const TiledRows& x, const PackedView& weight, std::size_t panels,
                    const TileProduct& settings, float* scratch, TensorView<Result> y) {
  auto* own = reinterpret_cast<std::uint32_t*>(scratch);
  const std::size_t words = tile_kernels()->scratch_words(x.rows, x.columns);
  TileProduct product = settings;
  product.leaf = weight.layout.padded_leaf();
  product.format = quant_format(weight.layout.type);
  product.first_block = weight.layout.first_block();
  product.scaled = &weight.layout.scaled;
  product.column_groups = weight.column_groups();
  product.in_features = x.columns;
  product.x_tiles = x.words;
  multiply_panels(weight, panels, product, x.rows, y, tile_kernel_of(weight.layout.type),
                  [&](TileProduct& part) {
                    part.scratch = own + static_cast<std::size_t>(omp_get_thread_num()) * words;
                    part.first_feature = y.columns() - part.out_features;
                  });
}

// multiply_tiles that first rounds the activations, to the beginning of the scratch memory.
template <class Result>
void multiply_tiles(TensorView<const float> x, const PackedView& weight, std::size_t panels,
                    const TileProduct& settings, TensorView<float> scratch, TensorView<Result> y) {
  const Filling filling = Filling::of(weight.layout, 1);
  float* rest = scratch.data() + lines(tile_words(x.rows(), filling.columns));
  TensorView<const float> filled = x;
  if (filling.columns != x.columns()) {
    const TensorView<float> copies(rest, x.rows(), filling.columns);
    for_rows(x, [&](std::size_t row) { filling.row(x, row, copies.row(row)); });
    filled = copies;
    rest += lines(copies.size());
  }
  multiply_tiles(to_tiles(filled, scratch.data()), weight, panels, settings, rest, y);
}

TileProduct gated(const PackedLayout& weight, Activation activation) {
  TileProduct product{};
  product.apart = weight.panels() / 2;
  product.combine = activation_kernels(activation).activate_and_multiply;
  return product;
}

// Output features that are widened to float32 rows at a time.
constexpr std::size_t kWidenedRows = 64;

// OpenBLAS multiplies a few widened rows at a time. Each thread calls it; inside a parallel region it uses
// one thread.
void multiply_widened(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
                      TensorView<float> y) {
  const auto blas_size = [](std::size_t size) { return static_cast<blasint>(size); };
  const PackedLayout& layout = weight.layout;
  const std::size_t in = layout.in_features;
  const Sgemm sgemm = openblas_sgemm();
  for_thread_parts(
      layout.panels(), layout.out_features * in * x.rows(), [&](std::size_t begin, std::size_t end) {
        float* rows = scratch.data() + static_cast<std::size_t>(omp_get_thread_num()) * kWidenedRows * in;
        const std::size_t last = std::min(end * kPanel, layout.out_features);
        for (std::size_t first = begin * kPanel; first < last; first += kWidenedRows) {
          const std::size_t count = std::min(kWidenedRows, last - first);
          for (std::size_t row = 0; row < count; ++row) unpack_row(weight, first + row, rows + row * in);
          sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_size(x.rows()), blas_size(count), blas_size(in),
                1.0F, x.data(), blas_size(x.stride()), rows, blas_size(in), 0.0F, y.data() + first,
                blas_size(y.stride()));
        }
      });
}

PanelProduct convert(TensorView<const float> x, const PackedView& weight, Path path, float* scratch) {
  const PackedLayout& layout = weight.layout;
  switch (path) {
    case Path::pairs:
      return with_pairs(x, layout, scratch);
    case Path::bytes:
      return with_bytes(x, layout, scratch);
    default:
      return with_floats(x, weight);
  }
}

// Floats of scratch for the panels that a thread unpacks.
std::size_t unpacked_floats(Path path, const PackedLayout& weight, std::size_t tokens) {
  if (!is_scaled(weight.type)) return 0;
  const ScaledKernels& kernels = scaled_kernels();
  const std::size_t bytes =
      path == Path::pairs ? kernels.pair_scratch_bytes(weight.in_features, weight.panels(), tokens)
                          : kernels.scratch_bytes(weight.scaled, weight.in_features, weight.panels(), tokens);
  return lines(bytes / sizeof(float));
}

// Floats of scratch of a matmul on a path. Rows that are shorter than the weight's padded rows are first
// copied.
std::size_t scratch_of(Path path, const PackedLayout& weight, std::size_t tokens) {
  const std::size_t in_features = weight.in_features;
  const std::size_t padded = weight.padded_in_features();
  const std::size_t copies = padded == in_features ? 0 : tokens * padded;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  switch (path) {
    case Path::floats:
      return threads * unpacked_floats(path, weight, tokens);
    case Path::pairs: {
      const std::size_t columns = Filling::of(weight, 2).columns;
      return lines(tokens * columns / 2) + (columns == in_features ? 0 : lines(tokens * columns)) +
             threads * unpacked_floats(path, weight, tokens);
    }
    case Path::bytes:
      return bytes_scratch(weight, tokens) + copies;
    case Path::blas:
      return threads * kWidenedRows * in_features;
    default: {
      const std::size_t columns = Filling::of(weight, 1).columns;
      return lines(tile_words(tokens, columns)) + (columns == in_features ? 0 : lines(tokens * columns)) +
             threads * tile_kernels()->scratch_words(tokens, columns);
    }
  }
}

template <class Result>
void multiply(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
              TensorView<Result> y) {
  const PackedLayout& layout = weight.layout;
  assert(x.columns() == layout.in_features && x.rows() == y.rows() && layout.out_features == y.columns());
  assert(scratch.size() >= matmul_scratch(layout, x.rows()));
  if (y.empty()) return;
  if (layout.in_features == 0) {  // a rank without columns has neither weights nor scratch
    for (std::size_t row = 0; row < y.rows(); ++row) std::fill_n(y.row(row), y.columns(), Result{});
    return;
  }
  const Path path = path_of(layout, x.rows());
  if (path == Path::tiles) return multiply_tiles(x, weight, layout.panels(), {}, scratch, y);
  const std::size_t unpacked = unpacked_floats(path, layout, x.rows());
  float* const rest = scratch.data() + scratch_of(path, layout, x.rows()) -
                      static_cast<std::size_t>(omp_get_max_threads()) * unpacked;
  multiply_panels(weight, layout.panels(), convert(x, weight, path, scratch.data()), x.rows(), y,
                  kernel_of(layout.type, path), [&](PanelProduct& part) {
                    float* const own = rest + static_cast<std::size_t>(omp_get_thread_num()) * unpacked;
                    part.scratch = reinterpret_cast<unsigned char*>(own);
                  });
}

}  // namespace

void prepare_matmul(bool same_bits) {
  if (active_isa() == Isa::portable && !same_bits) openblas_sgemm();
}

void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<float> y) {
  const PackedLayout& layout = weight.layout;
  assert(layout.leaf == 0);
  if (path_of(layout, x.rows()) == Path::blas && layout.in_features > 0 && !y.empty())
    return multiply_widened(x, weight, scratch, y);
  multiply(x, weight, scratch, y);
}

void matmul(TensorView<const float> x, const PackedView& weight, TensorView<float> scratch,
            TensorView<double> y) {
  assert(weight.layout.leaf > 0 && weight.layout.same_bits);
  multiply(x, weight, scratch, y);
}

std::size_t tiled_words(std::size_t rows, std::size_t columns) { return tile_words(rows, columns); }

bool takes_tiles(const PackedLayout& weight, std::size_t tokens) {
  return path_of(weight, tokens) == Path::tiles;
}

template <class Result>
static void multiply(const TiledRows& x, const PackedView& weight, TensorView<float> scratch,
                     TensorView<Result> y) {
  assert(takes_tiles(weight.layout, x.rows) && x.columns == weight.layout.in_features);
  assert(weight.layout.takes_whole_rows() && scratch.size() >= matmul_scratch(weight.layout, x.rows));
  if (y.empty()) return;
  multiply_tiles(x, weight, weight.layout.panels(), {}, scratch.data(), y);
}

void matmul(const TiledRows& x, const PackedView& weight, TensorView<float> scratch, TensorView<float> y) {
  assert(weight.layout.leaf == 0);
  multiply(x, weight, scratch, y);
}

void matmul(const TiledRows& x, const PackedView& weight, TensorView<float> scratch, TensorView<double> y) {
  assert(weight.layout.leaf > 0);
  multiply(x, weight, scratch, y);
}

bool can_gate(const PackedLayout& weight, std::size_t tokens) {
  return takes_tiles(weight, tokens) && weight.out_features % (2 * kPanel) == 0;
}

void matmul_gated(TensorView<const float> x, const PackedView& weight, Activation activation,
                  TensorView<float> scratch, TensorView<float> y) {
  const PackedLayout& layout = weight.layout;
  assert(2 * y.columns() == layout.out_features);
  assert(scratch.size() >= matmul_gated_scratch(layout, x.rows()));
  if (y.empty()) return;
  if (can_gate(layout, x.rows())) {
    const TileProduct product = gated(layout, activation);
    multiply_tiles(x, weight, product.apart, product, scratch, y);
    return;
  }
  const TensorView<float> gate_up(scratch.data(), x.rows(), layout.out_features);
  const std::size_t taken = lines(gate_up.size());
  matmul(x, weight, {scratch.data() + taken, 1, scratch.size() - taken}, gate_up);
  activate_and_multiply(activation, gate_up, y);
}

void matmul_gated(TensorView<const float> x, const PackedView& weight, Activation activation,
                  TensorView<float> scratch, const TiledRows& y) {
  assert(can_gate(weight.layout, x.rows()) && 2 * y.columns == weight.layout.out_features);
  assert(y.columns % 32 == 0 && y.rows == x.rows());
  assert(scratch.size() >= matmul_scratch(weight.layout, x.rows()));
  if (y.words == nullptr || y.rows == 0 || y.columns == 0) return;
  TileProduct product = gated(weight.layout, activation);
  product.y_tiles = y.words;
  product.y_features = y.columns;
  multiply_tiles(x, weight, product.apart, product, scratch, TensorView<float>(nullptr, y.rows, y.columns));
}

std::size_t matmul_scratch(const PackedLayout& weight, std::size_t tokens) {
  // Fewer tokens may use another path.
  const std::size_t few = std::min(tokens, few_tokens(weight.type));
  return std::max(scratch_of(path_of(weight, few), weight, few),
                  scratch_of(path_of(weight, tokens), weight, tokens));
}

std::size_t matmul_gated_scratch(const PackedLayout& weight, std::size_t tokens) {
  const std::size_t few = weight.same_bits ? 0 : few_tokens(weight.type);
  const std::size_t apart = can_gate(weight, tokens) ? std::min(tokens, few) : tokens;
  return std::max(matmul_scratch(weight, tokens),
                  lines(apart * weight.out_features) + matmul_scratch(weight, apart));
}

}  // namespace tp::kernels
