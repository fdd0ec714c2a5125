// Where weights come from: a checkpoint's files, or a generator of synthetic ones.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "model/kernels/stored_rows.h"
#include "model/weights/source/fetched_columns.h"
#include "model/weights/source/stored_scales.h"
#include "model/weights/source/type_use.h"
#include "parallel/shard/slice.h"
#include "tp/tensor.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tp {

// How the slices that ranks take of a stored matrix differ.
enum class Sharded : std::uint8_t { rows, columns };

// Named matrices of which any slice can be read, widened to float32. Reading the same slice twice gives the
// same values, and a slice has the values of the same elements of the whole tensor.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Whether there is a tensor of that name.
  virtual bool contains(const std::string& name) const = 0;

  // The names of all tensors, sorted; empty if the source makes tensors of any name.
  virtual std::vector<std::string> names() const = 0;

  // The type in which the tensor is stored, or that its values fit best. Throws CheckpointError if it is
  // missing.
  virtual DType dtype(const std::string& name) const = 0;

  // int8, int4 or a type with a QuantFormat if these columns of the tensor are stored as whole groups of that
  // type, which can be taken over as they are; one with a ScaledFormat, which takes any; else nothing. Throws
  // CheckpointError if the tensor is missing.
  virtual std::optional<WeightType> group_type(const std::string& /*name*/, Range /*columns*/) const {
    return std::nullopt;
  }

  // Checks that the tensor is there and has this shape; a vector of n elements is {1, n}. `reason` names the
  // config values which the shape follows from, for the error's text. Throws CheckpointError.
  virtual void expect(const std::string& name, MatrixShape shape, const std::string& reason) const = 0;

  // From now on `fetch` reads columns by this reader, and what is announced is read from disk without
  // anything around it. The reader must outlive the source.
  virtual void read_exactly(const ColumnReader& /*columns*/) {}

  // Announces what is read next of a tensor of that shape, until done_with: slices of some of its rows or
  // columns, whole otherwise. After read_exactly it must be called for all matrices, and throws what the
  // reader throws.
  virtual void fetch(const std::string& /*name*/, MatrixShape /*shape*/,
                     std::span<const TensorSlice> /*slices*/, Sharded /*sharded*/) const {}

  // Reads a slice of a tensor of that shape into `out`, [slice.rows.size(), slice.columns.size()]. Several
  // threads may read at once. Throws CheckpointError if the tensor is missing or has another shape.
  virtual void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                    TensorView<float> out) const = 0;

  // Where a slice lies in memory as it is stored, until the thread's next call: it counts as read. Nothing
  // if it is not there, in one of the types of DType. Throws CheckpointError as `read` does.
  virtual std::optional<StoredRows> stored_rows(const std::string& /*name*/, MatrixShape /*shape*/,
                                                const TensorSlice& /*slice*/) const {
    return std::nullopt;
  }

  // The same of a slice that has int8 or int4 as its group_type, without widening.
  virtual void read_groups(const std::string& /*name*/, MatrixShape /*shape*/, const TensorSlice& /*slice*/,
                           const kernels::GroupedRows& /*out*/) const {
    throw std::logic_error("this source stores no groups");
  }

  // The same of one with a QuantFormat: the super-blocks of 256 that the slice's columns touch.
  virtual void read_quantized(const std::string& /*name*/, MatrixShape /*shape*/,
                              const TensorSlice& /*slice*/, const kernels::QuantizedRows& /*out*/) const {
    throw std::logic_error("this source stores no super-blocks");
  }

  // The same of one with a ScaledFormat: the elements of the slice, and the groups that its columns touch.
  virtual void read_scaled(const std::string& /*name*/, MatrixShape /*shape*/, const TensorSlice& /*slice*/,
                           const kernels::ScaledRows& /*out*/) const {
    throw std::logic_error("this source stores no scales");
  }
  virtual StoredScales scales_of(const std::string& /*name*/) const {
    throw std::logic_error("this source stores no scales");
  }

  // The types of all tensors, that of most elements first; empty if the source stores nothing.
  virtual std::vector<TypeUse> types() const { return {}; }

  // Bytes of tensor data stored, and bytes of the slices that this process has read so far.
  virtual std::size_t stored_bytes() const = 0;
  virtual std::size_t bytes_read() const = 0;

  // The names of the stored tensors of which this process has read nothing, sorted; without those that have
  // no elements. Empty if the source does not count.
  virtual std::vector<std::string> unread() const { return {}; }

  // A hash of what is stored: ranks that have the same one read the same tensors from the same places.
  virtual std::uint64_t fingerprint() const = 0;
  // The same with the times of the files' last changes, which may differ between hosts.
  virtual std::uint64_t identity() const { return fingerprint(); }

  // Hints that tensor `name` has been read for the last time; its pages need not stay in memory.
  virtual void done_with(const std::string& name) const = 0;
};

}  // namespace tp
