// A checkpoint into which adapters are merged: W + scale * B A, computed while slices are read.
#pragma once

#include "model/config/spec.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/source/source_decorator.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// Whole tensors of an adapter (modules_to_save) replace the checkpoint's, and later adapters change the
// result of earlier ones. Tensors without changes stay as they are stored.
class MergedCheckpoint final : public SourceDecorator {
 public:
  // `stored`: a checkpoint of the model with this spec. Throws ConfigError if an adapter changes a tensor
  // that the checkpoint lacks, or one of two tied tables.
  MergedCheckpoint(std::unique_ptr<WeightSource> stored, Adapters adapters, const ModelSpec& spec);

  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  std::uint64_t fingerprint() const override { return stored().fingerprint() ^ merged_.fingerprint(); }

 private:
  bool changes(std::string_view tensor) const;
  bool is_transposed(std::string_view tensor) const;

  Adapters merged_;
  std::string blocks_;  // prefix of the tensors that are stored as [in_features, out_features], or empty
};

}  // namespace tp
