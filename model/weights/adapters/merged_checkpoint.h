// A checkpoint into which adapters are merged: W + scale * B A, computed while slices are read.
#pragma once

#include "model/config/spec.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/source/weight_source.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Whole tensors of an adapter (modules_to_save) replace the checkpoint's, and later adapters change the
// result of earlier ones. Tensors without changes stay as they are stored.
class MergedCheckpoint final : public WeightSource {
 public:
  // `stored`: a checkpoint of the model with this spec. Throws ConfigError if an adapter changes a tensor
  // that the checkpoint lacks, or one of two tied tables.
  MergedCheckpoint(std::unique_ptr<WeightSource> stored, Adapters adapters, const ModelSpec& spec);

  bool contains(const std::string& name) const override { return stored_->contains(name); }
  std::vector<std::string> names() const override { return stored_->names(); }
  std::string stored_name(const std::string& name) const override { return stored_->stored_name(name); }
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override { stored_->read_exactly(columns); }
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override {
    stored_->fetch(name, shape, slices, sharded);
  }
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  void read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::GroupedRows& out) const override {
    stored_->read_groups(name, shape, slice, out);
  }
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override {
    stored_->read_quantized(name, shape, slice, out);
  }
  void read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::ScaledRows& out) const override {
    stored_->read_scaled(name, shape, slice, out);
  }
  StoredScales scales_of(const std::string& name) const override { return stored_->scales_of(name); }
  std::vector<TypeUse> types() const override { return stored_->types(); }
  std::size_t stored_bytes() const override { return stored_->stored_bytes(); }
  std::size_t bytes_read() const override { return stored_->bytes_read(); }
  std::vector<std::string> unread() const override { return stored_->unread(); }
  std::vector<const MappedFile*> mapped_files() const override { return stored_->mapped_files(); }
  std::uint64_t fingerprint() const override { return stored_->fingerprint() ^ merged_.fingerprint(); }
  void done_with(const std::string& name) const override { stored_->done_with(name); }

 private:
  bool changes(std::string_view tensor) const;
  bool is_transposed(std::string_view tensor) const;

  std::unique_ptr<WeightSource> stored_;
  Adapters merged_;
  std::string blocks_;  // prefix of the tensors that are stored as [in_features, out_features], or empty
};

}  // namespace tp
