// A checkpoint that stores low-rank adapters with its weights, in the names of PyTorch's parametrizations.
// Source: Hu et al., LoRA, 2021, as in jina-embeddings-v3.
#pragma once

#include "model/weights/source/weight_source.h"

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
class AdaptedCheckpoint : public WeightSource {
 public:
  AdaptedCheckpoint(std::unique_ptr<WeightSource> stored, AdapterChoice choice);

  bool contains(const std::string& name) const override { return stored_->contains(place_of(name)); }
  std::vector<std::string> names() const override { return without_factors(stored_->names()); }
  std::string stored_name(const std::string& name) const override { return place_of(name); }
  DType dtype(const std::string& name) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override { stored_->read_exactly(columns); }
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override {
    stored_->fetch(place_of(name), shape, slices, sharded);
  }
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::vector<TypeUse> types() const override { return stored_->types(); }
  std::size_t stored_bytes() const override { return stored_->stored_bytes(); }
  std::size_t bytes_read() const override { return stored_->bytes_read(); }
  std::vector<std::string> unread() const override { return without_factors(stored_->unread()); }
  std::vector<const MappedFile*> mapped_files() const override { return stored_->mapped_files(); }
  std::uint64_t fingerprint() const override;
  void done_with(const std::string& name) const override { stored_->done_with(place_of(name)); }

 private:
  // The name of the tensor that stores a weight without its adapters.
  std::string place_of(const std::string& name) const;
  bool is_adapted(const std::string& name) const { return choice_.index && place_of(name) != name; }
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

  std::unique_ptr<WeightSource> stored_;
  AdapterChoice choice_;
};

}  // namespace tp
