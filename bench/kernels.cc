// Matmuls with every weight type for 1 to 512 tokens, relative to the machine's peak rates and to OpenBLAS'
// float32 matmul, measured in the same run. Results are verified first.
//
//   OMP_NUM_THREADS=1 bench_kernels [--json] [--tokens 4,8] [bf16 int8 ...]
//
// The column "of bound" is the time relative to a lower bound: the longer of the times to read the weights
// from memory and to multiply. For one token, the rate of multiplication is this program's, with all data in
// the nearest cache. For more tokens, the rate is 0.7 of the peak.

#include "bench/harness.h"
#include "model/kernels/matmul.h"
#include "model/kernels/openblas.h"
#include "model/kernels/simd/isa.h"
#include "model/rates/peak_rates.h"
#include "model/weights/local_weight.h"
#include "model/weights/synthetic/synthetic_blocks.h"
#include "model/weights/synthetic/synthetic_scaled.h"
#include "model/weights/weight_loader.h"

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace tp {
namespace {

constexpr std::size_t kInFeatures = 2048;
constexpr std::size_t kOutFeatures = 4096;
constexpr std::size_t kMaxTokens = 512;
// Copies of the weights with this total size are used in turn, so that each product reads its weights from
// memory, as in a model.
constexpr std::size_t kBytesInTurn = std::size_t{128} << 20;

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  bench::fill_randomly(values);
  return values;
}

// Compares a sample of the outputs with sums in double precision. Activations are rounded to 8 bits at worst,
// an error of 1/254 of their group's largest, with random signs.
void verify(const LocalWeight& weight, TensorView<const float> x, TensorView<const float> y) {
  std::vector<float> row(kInFeatures);
  for (std::size_t sample = 0; sample < 64; ++sample) {
    const std::size_t out = sample * 997 % kOutFeatures;
    const std::size_t token = sample * 31 % x.rows();
    weight.unpack_row(out, row.data());
    double expected = 0.0;
    for (std::size_t i = 0; i < kInFeatures; ++i) expected += static_cast<double>(x(token, i)) * row[i];
    double squares = 0.0;
    for (const float element : row) squares += static_cast<double>(element) * element;
    const double allowed = 0.035 * std::sqrt(squares);
    if (!(std::abs(y(token, out) - expected) <= allowed)) {
      throw std::runtime_error(fmt::format("{}, {} tokens: [{}, {}] is {}, expected {}",
                                           name_of(weight.type()), x.rows(), token, out, y(token, out),
                                           expected));
    }
  }
}

double peak_of(WeightType type, const PeakRates& peaks) {
  const bool integers = type >= WeightType::int8 && !kernels::is_scaled(type);
  if (integers && peaks.int8_per_second > 0) return peaks.int8_per_second;
  const bool pairs = type == WeightType::bf16 || type == WeightType::f8_e4m3;
  return pairs && peaks.bf16_per_second > 0 ? peaks.bf16_per_second : peaks.f32_per_second;
}

// Returns a lower bound of a product's seconds: the time to read the weights or the time to multiply,
// whichever is longer.
double bound_seconds(double bytes, double multiplying, const PeakRates& peaks) {
  return std::max(bytes / peaks.streaming_bytes_per_second, multiplying);
}

// Returns the seconds of multiplying many tokens. Loads and scales leave 0.7 of the peak rate in registers.
double multiplying_seconds(double operations, double peak) {
  constexpr double kOfPeak = 0.7;
  return operations / (kOfPeak * peak);
}

// Returns the seconds of OpenBLAS' matmul with float32 weights, for every number of tokens.
std::vector<double> measure_openblas(TensorView<const float> weight, const std::vector<float>& activations,
                                     const std::vector<std::size_t>& token_counts) {
  const std::vector<float> other(weight.data(), weight.data() + weight.size());
  std::vector<float> y(kMaxTokens * kOutFeatures);
  std::vector<double> seconds;
  const kernels::Sgemm sgemm = kernels::openblas_sgemm();
  bool turn = false;
  for (const std::size_t tokens : token_counts) {
    seconds.push_back(bench::best_seconds([&] {
      turn = !turn;
      sgemm(kernels::CblasRowMajor, kernels::CblasNoTrans, kernels::CblasTrans,
            static_cast<kernels::blasint>(tokens), kOutFeatures, kInFeatures, 1.0F, activations.data(),
            kInFeatures, turn ? weight.data() : other.data(), kInFeatures, 0.0F, y.data(), kOutFeatures);
    }));
  }
  return seconds;
}

// Returns random elements of any type.
LocalWeight random_weight(WeightType type, std::size_t out_features, std::size_t in_features) {
  const auto load = [&](const WeightSource& source, std::optional<WeightType> held_as) {
    WeightLoader loader(source, {0, 1}, held_as, {});
    return loader.columns_of_weight({.name = "w", .shape = {out_features, in_features}}, {0, in_features});
  };
  if (kernels::is_scaled(type)) return load(SyntheticScaled(type), std::nullopt);
  if (!is_convertible(type)) return load(SyntheticBlocks(type), std::nullopt);
  return load(SyntheticWeights(DType::f32, 1), type);
}

// Seconds of one thread for a token and a row of the product's weights, while weights and activations stay in
// the nearest cache. A product of more rows less one of fewer rows leaves out what a product costs besides
// its rows.
double near_seconds_per_row(WeightType type, const std::vector<float>& activations) {
  constexpr std::size_t kFew = 16;
  constexpr std::size_t kMore = 48;
  constexpr std::size_t kColumns = 512;
  constexpr int kCalls = 200;
  const TensorView<const float> x(activations.data(), 1, kColumns);
  const auto seconds = [&](std::size_t rows) {
    const LocalWeight weight = random_weight(type, rows, kColumns);
    Workspace counting = Workspace::counting();
    weight.multiply(TensorView<const float>(nullptr, 1, kColumns), counting);
    Workspace workspace(counting.peak_bytes() / sizeof(float));
    return bench::best_seconds([&] {
             for (int i = 0; i < kCalls; ++i) {
               const Workspace::Frame frame(workspace);
               weight.multiply(x, workspace);
             }
           }) /
           kCalls;
  };
  const double per_column = (seconds(kMore) - seconds(kFew)) / (kMore - kFew) / kColumns;
  return per_column * kInFeatures;
}

void measure_products(const std::vector<LocalWeight>& weights, const std::vector<float>& activations,
                      const std::vector<std::size_t>& token_counts, const std::vector<double>& openblas,
                      PeakRates peaks, bool json) {
  const double near =
      near_seconds_per_row(weights.front().type(), activations) * kOutFeatures / omp_get_max_threads();
  peaks.streaming_bytes_per_second = local_streaming_rate();  // measured again, because the rate drifts
  const LocalWeight& first = weights.front();
  const double peak = peak_of(first.type(), peaks);
  Workspace counting = Workspace::counting();
  first.multiply(TensorView<const float>(nullptr, kMaxTokens, kInFeatures), counting);
  Workspace workspace(counting.peak_bytes() / sizeof(float));
  std::size_t turn = 0;
  for (std::size_t i = 0; i < token_counts.size(); ++i) {
    const std::size_t tokens = token_counts[i];
    const TensorView<const float> x(activations.data(), tokens, kInFeatures);
    const auto multiply = [&](const LocalWeight& weight) {
      const Workspace::Frame frame(workspace);
      return weight.multiply(x, workspace);
    };
    verify(first, x, multiply(first));
    const double seconds = bench::best_seconds([&] { multiply(weights[turn++ % weights.size()]); });
    const auto bytes = static_cast<double>(first.bytes());
    const double operations = 2.0 * kOutFeatures * kInFeatures * static_cast<double>(tokens);
    const double multiplying = tokens == 1 ? near : multiplying_seconds(operations, peak);
    fmt::print(fmt::runtime(json ? "{{\"weights\":\"{}\",\"tokens\":{},\"us\":{:.1f},\"gb_s\":{:.2f},"
                                   "\"gflops\":{:.1f},\"of_streaming\":{:.3f},\"of_peak\":{:.3f},"
                                   "\"of_bound\":{:.2f},\"of_openblas\":{:.3f}}}\n"
                                 : "{:<8} {:>7} {:>10.1f} {:>8.2f} {:>9.1f} {:>13.3f} {:>8.3f} {:>9.2f} "
                                   "{:>12.2f}\n"),
               name_of(first.type()), tokens, seconds * 1e6, bytes / seconds / 1e9,
               operations / seconds / 1e9, bytes / seconds / peaks.streaming_bytes_per_second,
               operations / seconds / peak, seconds / bound_seconds(bytes, multiplying, peaks),
               openblas[i] / seconds);
    std::fflush(stdout);
  }
}

// Returns the seconds of a plain loop that reads and writes as many bytes as packing does.
double plain_seconds(const std::vector<std::uint64_t>& from, std::size_t from_bytes, std::size_t to_bytes) {
  constexpr std::size_t kPieces = 1024;
  const std::size_t reads = from_bytes / sizeof(from[0]) / kPieces;
  const std::size_t writes = to_bytes / sizeof(from[0]) / kPieces;
  std::vector<std::uint64_t> to(writes * kPieces);
  return bench::best_seconds([&] {
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < reads; ++i) sum ^= from[piece * reads + i];
      for (std::size_t i = 0; i < writes; ++i) to[piece * writes + i] = sum + i;
    }
  });
}

// Measures how fast one thread packs stored elements, relative to a plain loop over the same bytes.
void measure_packing(WeightType type, DType stored, const std::vector<std::uint64_t>& memory, bool json) {
  LocalWeight weight(type, kOutFeatures, kInFeatures);
  const StoredRows rows{stored, reinterpret_cast<const std::byte*>(memory.data()), kOutFeatures, kInFeatures,
                        kInFeatures * size_of(stored)};
  const double seconds = bench::best_seconds([&] { weight.pack(0, rows); });
  const double plain = plain_seconds(memory, kOutFeatures * kInFeatures * size_of(stored), weight.bytes());
  fmt::print(fmt::runtime(json ? "{{\"pack\":\"{}\",\"stored\":\"{}\",\"ns\":{:.3f},\"of_plain\":{:.3f}}}\n"
                               : "{:<5} from {:<5} {:>10.3f} {:>14.2f}\n"),
             name_of(type), name_of(stored), seconds * 1e9 / (kOutFeatures * kInFeatures), plain / seconds);
}

void run(bool json, const std::vector<std::size_t>& token_counts,
         const std::vector<std::string_view>& types) {
  const PeakRates peaks = local_peak_rates();
  fmt::print(
      fmt::runtime(json ? "{{\"isa\":\"{}\",\"threads\":{},\"streaming_gb_s\":{:.2f},\"f32_gflops\":{:.1f},"
                          "\"bf16_gflops\":{:.1f},\"int8_gops\":{:.1f}}}\n"
                        : "{}, {} threads: {:.1f} GB/s; f32 {:.0f}, bf16 {:.0f}, int8 {:.0f} Gop/s\n"),
      kernels::name_of(kernels::active_isa()), omp_get_max_threads(), peaks.streaming_bytes_per_second / 1e9,
      peaks.f32_per_second / 1e9, peaks.bf16_per_second / 1e9, peaks.int8_per_second / 1e9);
  const std::vector<float> elements = numbers(kOutFeatures * kInFeatures);
  const std::vector<float> activations = numbers(kMaxTokens * kInFeatures);
  const TensorView<const float> rows(elements.data(), kOutFeatures, kInFeatures);
  const std::vector<double> openblas = measure_openblas(rows, activations, token_counts);
  constexpr WeightType kTypes[] = {
      WeightType::f32,     WeightType::f16,         WeightType::bf16,        WeightType::int8,
      WeightType::int4,    WeightType::q4_k,        WeightType::q5_k,        WeightType::q6_k,
      WeightType::q3_k,    WeightType::q2_k,        WeightType::q4_1,        WeightType::q5_0,
      WeightType::q5_1,    WeightType::iq4_nl,      WeightType::iq4_xs,      WeightType::mxfp4,
      WeightType::iq2_xxs, WeightType::iq2_xs,      WeightType::iq2_s,       WeightType::iq3_xxs,
      WeightType::iq3_s,   WeightType::iq1_s,       WeightType::iq1_m,       WeightType::tq1_0,
      WeightType::tq2_0,   WeightType::nvfp4,       WeightType::int4_g128,   WeightType::int4_g128_bf16,
      WeightType::f8_e4m3, WeightType::int8_scaled, WeightType::int4_scaled, WeightType::nf4};
  const auto is_wanted = [&](WeightType type) {
    return types.empty() || std::find(types.begin(), types.end(), name_of(type)) != types.end();
  };
  if (!json) {
    fmt::print("{:<8} {:>7} {:>10} {:>8} {:>9} {:>13} {:>8} {:>9} {:>12}\n", "weights", "tokens", "us",
               "GB/s", "GFLOP/s", "of streaming", "of peak", "of bound", "of OpenBLAS");
  }
  for (const WeightType type : kTypes) {
    if (!is_wanted(type)) continue;
    std::vector<LocalWeight> weights;
    for (std::size_t bytes = 0; bytes < kBytesInTurn; bytes += weights.back().bytes()) {
      weights.push_back(random_weight(type, kOutFeatures, kInFeatures));
    }
    measure_products(weights, activations, token_counts, openblas, peaks, json);
  }
  // These bits are near 1 in float16, and small numbers in the other types.
  const std::vector<std::uint64_t> memory(kOutFeatures * kInFeatures / 2, 0x3c013c013c013c01);
  if (!json) fmt::print("{:<16} {:>10} {:>14}\n", "packing", "ns/element", "of plain loop");
  for (const WeightType type : kTypes) {
    for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
      if (is_wanted(type) && is_convertible(type)) measure_packing(type, stored, memory, json);
    }
  }
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Matmuls with every weight type, relative to the machine's peak rates");
  bool json = false;
  std::vector<std::string> types;
  std::vector<std::size_t> token_counts{1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 512};
  tp::bench::add_json(app, json);
  app.add_option("--tokens", token_counts, "Numbers of tokens")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::size_t{1}, tp::kMaxTokens));
  app.add_option("TYPES", types, "Weight types (default: all)")->type_name("");
  return tp::bench::run_program("bench_kernels", app, argc, argv, [&] {
    tp::run(json, token_counts, {types.begin(), types.end()});
  });
}
