// A drafter's checkpoint with the embedding and the LM head of its target, if it stores none of its own.
#pragma once

#include "model/weights/source/weight_source.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// Tensors that the drafter lacks come from the target, under the drafter's names. Counts of bytes and of
// unread tensors are of the drafter's own files.
class BorrowedTables final : public WeightSource {
 public:
  // `names`: the drafter's name of each tensor that it borrows, and the target's name.
  BorrowedTables(std::unique_ptr<WeightSource> own, std::unique_ptr<WeightSource> target,
                 std::map<std::string, std::string> names);

  bool contains(const std::string& name) const override;
  std::vector<std::string> names() const override;
  std::string stored_name(const std::string& name) const override;
  DType dtype(const std::string& name) const override;
  std::optional<WeightType> group_type(const std::string& name, Range columns) const override;
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override;
  void read_exactly(const ColumnReader& columns) override;
  void fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
             Sharded sharded) const override;
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override;
  std::optional<StoredRows> stored_rows(const std::string& name, MatrixShape shape,
                                        const TensorSlice& slice) const override;
  void read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::GroupedRows& out) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  void read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::ScaledRows& out) const override;
  StoredScales scales_of(const std::string& name) const override;
  std::vector<std::int64_t> whole_numbers(const std::string& name, std::size_t size,
                                          const std::string& reason) const override {
    return own_->whole_numbers(name, size, reason);
  }
  std::vector<TypeUse> types() const override { return own_->types(); }
  std::size_t stored_bytes() const override { return own_->stored_bytes(); }
  std::size_t bytes_read() const override { return own_->bytes_read(); }
  std::vector<std::string> unread() const override { return own_->unread(); }
  std::vector<const MappedFile*> mapped_files() const override { return own_->mapped_files(); }
  std::uint64_t fingerprint() const override;
  void done_with(const std::string& name) const override;

 private:
  struct Place {
    const WeightSource& source;
    const std::string& name;
  };
  Place place_of(const std::string& name) const;

  std::unique_ptr<WeightSource> own_;
  std::unique_ptr<WeightSource> target_;
  std::map<std::string, std::string> names_;
};

}  // namespace tp
