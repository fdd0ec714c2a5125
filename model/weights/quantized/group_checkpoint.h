// Reads Hugging Face checkpoints that are quantized by AWQ, GPTQ or compressed-tensors, or stored as FP8 or
// MXFP4.
#pragma once

#include "model/weights/quantized/group_quantization.h"
#include "model/weights/quantized/quantized_matrices.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"

#include <memory>
#include <string>
#include <vector>

namespace tp {

// Returns a description such as "AWQ int4, groups of 128".
std::string description_of(const StoredGroups& weight, GroupQuantization::Method method);

// Makes a tensor "NAME.weight" of "NAME.qweight" or "NAME.weight_packed" with scales and zero points. A
// tensor of FP8 or int8 is multiplied by "..._scale_inv" or "..._scale". "..._blocks" of MXFP4 with
// "..._scales" is a matrix of values, or a stack of matrices. All other tensors, such as those that the
// config exempts, are read from the file unchanged.
class GroupCheckpoint final : public WeightSource {
 public:
  // Throws CheckpointError if a quantized tensor lacks a part, or a part has the wrong shape.
  GroupCheckpoint(std::unique_ptr<SafetensorsCheckpoint> plain, GroupQuantization quantization);

  // Whether any tensors are FP8, which can be recognized without a config.
  static bool has_fp8(const SafetensorsCheckpoint& plain);

  bool contains(const std::string& name) const override;
  std::vector<std::string> names() const override;
  // f32 for quantized tensors, which holds their values exactly. Used for leaves that are not whole groups of
  // 32.
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override { plain_->read_exactly(columns); }
  // Scales and zero points are announced completely.
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  // FP8, and tensors that are not quantized.
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  void read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::ScaledRows& out) const override;
  StoredScales scales_of(const std::string& name) const override;
  std::vector<TypeUse> types() const override;
  std::vector<std::int64_t> whole_numbers(const std::string& name, MatrixShape shape,
                                          const std::string& reason) const override {
    return plain_->whole_numbers(name, shape, reason);
  }
  std::size_t stored_bytes() const override { return plain_->stored_bytes(); }
  std::size_t bytes_read() const override { return plain_->bytes_read(); }
  std::vector<std::string> unread() const override { return plain_->unread(); }
  std::uint64_t fingerprint() const override { return of_quantization(plain_->fingerprint()); }
  std::vector<const MappedFile*> mapped_files() const override { return plain_->mapped_files(); }
  void done_with(const std::string& name) const override;

 private:
  const QuantizedMatrix* find(const std::string& name) const;
  const QuantizedMatrix& find(const std::string& name, MatrixShape shape, const std::string& reason) const;
  RowsInMemory place_of(const QuantizedMatrix& matrix, const TensorSlice& slice) const;
  void count(const QuantizedMatrix& matrix, const TensorSlice& slice) const;
  std::uint64_t of_quantization(std::uint64_t hash) const;

  std::unique_ptr<SafetensorsCheckpoint> plain_;
  GroupQuantization quantization_;
  QuantizedMatrices found_;
};

}  // namespace tp
