// A source of weights around another source.
#pragma once

#include "model/weights/source/weight_source.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// Passes all calls on to the stored weights. Derived classes override what they change.
class SourceDecorator : public WeightSource {
 public:
  explicit SourceDecorator(std::unique_ptr<WeightSource> stored);

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
  std::optional<MappedRows> mapped_rows(const std::string& name, MatrixShape shape) const override;
  void read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::GroupedRows& out) const override;
  void read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                      const kernels::QuantizedRows& out) const override;
  void read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                   const kernels::ScaledRows& out) const override;
  StoredScales scales_of(const std::string& name) const override;
  std::vector<std::int64_t> whole_numbers(const std::string& name, MatrixShape shape,
                                          const std::string& reason) const override;
  std::vector<TypeUse> types() const override;
  std::size_t stored_bytes() const override;
  std::size_t bytes_read() const override;
  std::vector<std::string> unread() const override;
  std::vector<const MappedFile*> mapped_files() const override;
  std::uint64_t fingerprint() const override;
  void done_with(const std::string& name) const override;

 protected:
  struct Place {
    const WeightSource& source;
    std::string name;  // the tensor's name in this source
  };
  // The source of a tensor. By default, the stored weights under the same name.
  virtual Place place_of(const std::string& name) const { return {*stored_, name}; }

  const WeightSource& stored() const { return *stored_; }

 private:
  std::unique_ptr<WeightSource> stored_;
};

}  // namespace tp
