// Sources of weights: a checkpoint's files, or a generator of synthetic weights.
#pragma once

#include "model/files/mapped_file.h"
#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "model/kernels/stored_rows.h"
#include "model/weights/source/fetched_columns.h"
#include "model/weights/source/mapped_rows.h"
#include "model/weights/source/stored_scales.h"
#include "model/weights/source/type_use.h"
#include "parallel/shard/slice.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tp {

// Whether ranks take rows or columns of a stored matrix.
enum class Sharded : std::uint8_t { rows, columns };

class Adapters;

// Named matrices. Any slice can be read, widened to float32. An element has the same value in every slice and
// each time it is read.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual bool contains(const std::string& name) const = 0;

  // The names of all tensors, sorted; empty if the source makes tensors of any name.
  virtual std::vector<std::string> names() const = 0;

  // The name of the tensor in the files, for errors. Sources may know names that they lack.
  virtual std::string stored_name(const std::string& name) const { return name; }

  // The type in which the tensor is stored, or that fits its values best. Throws CheckpointError if the
  // tensor is missing.
  virtual DType dtype(const std::string& name) const = 0;

  // The type that holds these columns unchanged, if there is one: int8, int4 or a type with a QuantFormat if
  // the columns are whole groups; a type with a ScaledFormat for any columns. Throws CheckpointError if the
  // tensor is missing.
  virtual std::optional<WeightType> group_type(const std::string& /*name*/, Range /*columns*/) const {
    return std::nullopt;
  }

  // Checks that the tensor exists and has this shape; a vector of n elements is {1, n}. `reason` names the
  // config values that determine the shape, for the error. Throws CheckpointError.
  virtual void expect(const std::string& name, MatrixShape shape, const std::string& reason) const = 0;

  // From now on, `fetch` reads columns with this reader, and only announced data is read from disk, no
  // neighbouring pages. The reader must outlive the source.
  virtual void read_exactly(const ColumnReader& /*columns*/) {}

  // Announces the slices of a tensor that are read next, until done_with. They are whole rows or whole
  // columns (`sharded`). After read_exactly, `fetch` must be called for all matrices, and throws the reader's
  // errors.
  virtual void fetch(const std::string& /*name*/, MatrixShape /*shape*/,
                     std::span<const TensorSlice> /*slices*/, Sharded /*sharded*/) const {}

  // Reads a slice of a tensor with this shape into `out`, [slice.rows.size(), slice.columns.size()]. Several
  // threads may read at once. Throws CheckpointError if the tensor is missing or has another shape.
  virtual void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                    TensorView<float> out) const = 0;

  // The place in memory of a slice as stored, valid until the thread's next call. The slice counts as read.
  // Nothing if it is not in memory as a DType. Throws CheckpointError like `read`.
  virtual std::optional<StoredRows> stored_rows(const std::string& /*name*/, MatrixShape /*shape*/,
                                                const TensorSlice& /*slice*/) const {
    return std::nullopt;
  }

  // A matrix whose rows are read from the files while the model runs; it counts as read. Nothing unless the
  // files contain each row as a whole, with values that dtype or group_type keeps. The tensor must have been
  // expected with this shape.
  virtual std::optional<MappedRows> mapped_rows(const std::string& /*name*/, MatrixShape /*shape*/) const {
    return std::nullopt;
  }

  // Like `read`, without widening, for a slice whose group_type is int8 or int4.
  virtual void read_groups(const std::string& /*name*/, MatrixShape /*shape*/, const TensorSlice& /*slice*/,
                           const kernels::GroupedRows& /*out*/) const {
    throw std::logic_error("this source stores no groups");
  }

  // Like `read`, for a group_type with a QuantFormat: the super-blocks of 256 that the slice's columns touch.
  virtual void read_quantized(const std::string& /*name*/, MatrixShape /*shape*/,
                              const TensorSlice& /*slice*/, const kernels::QuantizedRows& /*out*/) const {
    throw std::logic_error("this source stores no super-blocks");
  }

  // Like `read`, for a group_type with a ScaledFormat: the slice's elements, and the groups that its columns
  // touch.
  virtual void read_scaled(const std::string& /*name*/, MatrixShape /*shape*/, const TensorSlice& /*slice*/,
                           const kernels::ScaledRows& /*out*/) const {
    throw std::logic_error("this source stores no scales");
  }
  virtual StoredScales scales_of(const std::string& /*name*/) const {
    throw std::logic_error("this source stores no scales");
  }

  // The elements of a vector or matrix of integers (I64 or I32). Empty: the source is synthetic, and any
  // integers fit. `shape`, `reason`: as for `expect`. Throws CheckpointError.
  virtual std::vector<std::int64_t> whole_numbers(const std::string& /*name*/, MatrixShape /*shape*/,
                                                  const std::string& /*reason*/) const {
    throw std::logic_error("this source stores no integers");
  }

  // The types of all tensors, the one with the most elements first; empty if the source stores nothing.
  virtual std::vector<TypeUse> types() const { return {}; }

  // Bytes of tensor data stored, and bytes of the slices that this process has read so far.
  virtual std::size_t stored_bytes() const = 0;
  virtual std::size_t bytes_read() const = 0;

  // The sorted names of stored tensors of which this process has read nothing, except those without elements.
  // Empty if the source does not count.
  virtual std::vector<std::string> unread() const { return {}; }

  // The files, in a fixed order; none if weights are generated.
  virtual std::vector<const MappedFile*> mapped_files() const { return {}; }
  // A hash of everything besides the files' data: sources with equal fingerprints read the same tensors from
  // the same places and convert them in the same way. ModelIdentity adds the data.
  virtual std::uint64_t fingerprint() const = 0;

  // Hints that the tensor has been read for the last time, so that its pages need not stay in memory.
  virtual void done_with(const std::string& name) const = 0;

  // The adapters that are used with these weights; null: none. They do not change the tensors.
  void use_adapters(std::shared_ptr<const Adapters> adapters) { adapters_ = std::move(adapters); }
  const Adapters* adapters() const { return adapters_.get(); }

 private:
  std::shared_ptr<const Adapters> adapters_;
};

}  // namespace tp
