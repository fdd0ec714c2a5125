// A checkpoint that stores low-rank adapters with its weights, in the names of PyTorch's parametrizations.
// Source: Hu et al., LoRA, 2021, as in jina-embeddings-v3.
#pragma once

#include "model/weights/source/source_decorator.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// The adapter that is added to the weights.
struct AdapterChoice {
  std::size_t adapters = 0;            // adapters of each weight, stored one below the other
  std::optional<std::size_t> index{};  // nullopt: the weights alone
  std::size_t rank = 0;
  double alpha = 1.0;
  // Layers whose factors are stored the other way round: a row of the first factor for each token.
  std::vector<std::string> embeddings{};
};

// Weights as they are without parametrizations: W + alpha / rank * B A.
class AdaptedCheckpoint : public SourceDecorator {
 public:
  AdaptedCheckpoint(std::unique_ptr<WeightSource> stored, AdapterChoice choice);

  std::vector<std::string> names() const override { return without_factors(stored().names()); }
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  std::vector<std::string> unread() const override { return without_factors(stored().unread()); }
  std::uint64_t fingerprint() const override;

 private:
  // The tensor that stores a weight without its adapters.
  Place place_of(const std::string& name) const override;
  bool is_adapted(const std::string& name) const { return choice_.index && place_of(name).name != name; }
  bool is_embedding(const std::string& layer) const;
  // Both factors of a layer's adapters, all adapters one below the other, in the order of the product.
  struct FactorPlace {
    std::string name;
    MatrixShape shape;
  };
  std::array<FactorPlace, 2> factors_of(const std::string& layer, MatrixShape shape) const;
  // Adds the chosen adapter's part of a slice.
  void add_adapter(const std::string& layer, MatrixShape shape, const TensorSlice& slice,
                   TensorView<float> out) const;
  static std::vector<std::string> without_factors(const std::vector<std::string>& names);

  AdapterChoice choice_;
};

}  // namespace tp
