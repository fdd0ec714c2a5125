#include "model/weights/adapted_checkpoint.h"

#include "model/weights/source/low_rank.h"
#include "parallel/machine/hash.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kWeightEnd = ".weight";
constexpr std::string_view kOriginal = ".parametrizations.weight.original";
constexpr std::string_view kFactors = ".parametrizations.weight.0.";

std::string layer_of(const std::string& name) { return name.substr(0, name.size() - kWeightEnd.size()); }

// The rows of a factor, [rows, columns], from which a slice of the product is made.
struct Factor {
  std::vector<float> values;
  std::size_t columns;

  TensorView<const float> view() const { return {values.data(), values.size() / columns, columns}; }
};

}  // namespace

AdaptedCheckpoint::AdaptedCheckpoint(std::unique_ptr<WeightSource> stored, AdapterChoice choice)
    : SourceDecorator(std::move(stored)), choice_(std::move(choice)) {}

AdaptedCheckpoint::Place AdaptedCheckpoint::place_of(const std::string& name) const {
  if (!name.ends_with(kWeightEnd)) return {stored(), name};
  std::string original = layer_of(name).append(kOriginal);
  return {stored(), stored().contains(original) ? std::move(original) : name};
}

bool AdaptedCheckpoint::is_embedding(const std::string& layer) const {
  return std::ranges::any_of(choice_.embeddings,
                             [&](const std::string& name) { return layer.ends_with(name); });
}

// Sums with an adapter have no type of the file.
DType AdaptedCheckpoint::dtype(const std::string& name) const {
  return is_adapted(name) ? DType::f32 : SourceDecorator::dtype(name);
}

std::optional<WeightType> AdaptedCheckpoint::group_type(const std::string& name, Range columns) const {
  return is_adapted(name) ? std::nullopt : SourceDecorator::group_type(name, columns);
}

std::optional<StoredRows> AdaptedCheckpoint::stored_rows(const std::string& name, MatrixShape shape,
                                                         const TensorSlice& slice) const {
  return is_adapted(name) ? std::nullopt : SourceDecorator::stored_rows(name, shape, slice);
}

std::optional<MappedRows> AdaptedCheckpoint::mapped_rows(const std::string& name, MatrixShape shape) const {
  return is_adapted(name) ? std::nullopt : SourceDecorator::mapped_rows(name, shape);
}

void AdaptedCheckpoint::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                             TensorView<float> out) const {
  SourceDecorator::read(name, shape, slice, out);
  if (is_adapted(name)) add_adapter(layer_of(name), shape, slice, out);
}

void AdaptedCheckpoint::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  SourceDecorator::expect(name, shape, reason);
  if (!is_adapted(name)) return;
  for (const FactorPlace& factor : factors_of(layer_of(name), shape))
    stored().expect(factor.name, factor.shape, "the adapters' rank, lora_rank, and the layer's shape");
}

// A linear layer's factors are B, [out_features, rank], and A, [rank, in_features]. An embedding's are A,
// [tokens, rank], and B, [rank, hidden_size], in this order.
std::array<AdaptedCheckpoint::FactorPlace, 2> AdaptedCheckpoint::factors_of(const std::string& layer,
                                                                            MatrixShape shape) const {
  const bool swapped = is_embedding(layer);
  const std::string begin = layer + std::string(kFactors);
  return {
      FactorPlace{begin + (swapped ? "lora_A" : "lora_B"), {choice_.adapters * shape.rows, choice_.rank}},
      FactorPlace{begin + (swapped ? "lora_B" : "lora_A"), {choice_.adapters * choice_.rank, shape.columns}}};
}

void AdaptedCheckpoint::add_adapter(const std::string& layer, MatrixShape shape, const TensorSlice& slice,
                                    TensorView<float> out) const {
  const auto read_factor = [&](const FactorPlace& factor, Range rows, Range columns) {
    const std::size_t first = *choice_.index * (factor.shape.rows / choice_.adapters);
    Factor result{std::vector<float>(rows.size() * columns.size()), columns.size()};
    stored().read(factor.name, factor.shape, {{first + rows.begin, first + rows.end}, columns},
                  {result.values.data(), rows.size(), columns.size()});
    return result;
  };
  const Range ranks{0, choice_.rank};
  const std::array<FactorPlace, 2> factors = factors_of(layer, shape);
  const Factor left = read_factor(factors[0], slice.rows, ranks);
  const Factor right = read_factor(factors[1], ranks, slice.columns);
  add_low_rank(left.view(), right.view(), choice_.alpha / static_cast<double>(choice_.rank), out);
}

std::uint64_t AdaptedCheckpoint::fingerprint() const {
  const std::string chosen = choice_.index ? std::to_string(*choice_.index) : "none";
  return hash_of(fmt::format("{} adapter {} {}", stored().fingerprint(), chosen, choice_.alpha));
}

std::vector<std::string> AdaptedCheckpoint::without_factors(const std::vector<std::string>& names) {
  std::vector<std::string> weights;
  for (const std::string& name : names) {
    if (name.find(kFactors) != name.npos) continue;
    const std::size_t place = name.find(kOriginal);
    weights.push_back(place == name.npos ? name : name.substr(0, place).append(kWeightEnd));
  }
  std::ranges::sort(weights);
  return weights;
}

}  // namespace tp
