// The weights of a Hugging Face checkpoint that AWQ, GPTQ or compressed-tensors have quantized.
#pragma once

#include "model/weights/checkpoint/group_quantization.h"
#include "model/weights/checkpoint/safetensors_checkpoint.h"
#include "model/weights/checkpoint/stored_groups.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tp {

// Where the file has "NAME.qweight" or "NAME.weight_packed" with scales and zero points beside it, there is a
// tensor "NAME.weight" of their values; others, such as those that the config exempts, are the file's.
class GroupCheckpoint final : public WeightSource {
 public:
  // Throws CheckpointError if a quantized tensor lacks a part or has parts of other shapes.
  GroupCheckpoint(std::unique_ptr<SafetensorsCheckpoint> plain, GroupQuantization quantization);

  bool contains(const std::string& name) const override;
  std::vector<std::string> names() const override;
  // f32 for quantized tensors, which holds their values exactly: for leaves that are not whole groups of 32.
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override { plain_->read_exactly(columns); }
  // Quantized tensors are announced, and then read, as a whole by every rank's host.
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override { return plain_->stored_bytes(); }
  std::size_t bytes_read() const override { return plain_->bytes_read(); }
  std::vector<std::string> unread() const override { return plain_->unread(); }
  std::uint64_t fingerprint() const override { return of_quantization(plain_->fingerprint()); }
  std::uint64_t identity() const override { return of_quantization(plain_->identity()); }
  void done_with(const std::string& name) const override;

 private:
  struct Matrix {
    StoredGroups groups;
    WeightType type;
    std::string words;                // the tensor's name
    std::vector<std::string> shared;  // those of scales and zero points
  };

  void add_outputs_last(const std::string& layer);
  void add_packed(const std::string& layer);
  void add(const std::string& layer, const StoredGroups& groups, std::vector<std::string> shared);
  void check_order(const std::string& layer, const StoredGroups& groups);
  const SafetensorsCheckpoint::Raw require_part(const std::string& name, std::string_view types) const;
  std::string words_of(const std::string& layer) const;
  const Matrix* find(const std::string& name) const;
  const Matrix& find(const std::string& name, MatrixShape shape, const std::string& reason) const;
  void count(const Matrix& matrix, const TensorSlice& slice) const;
  std::uint64_t of_quantization(std::uint64_t hash) const;

  std::unique_ptr<SafetensorsCheckpoint> plain_;
  GroupQuantization quantization_;
  std::map<std::string, Matrix> matrices_;  // by the names under which they are asked for
  std::set<std::string> parts_;             // tensors of the file that they consist of
};

}  // namespace tp
