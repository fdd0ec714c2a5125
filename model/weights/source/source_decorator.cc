#include "model/weights/source/source_decorator.h"

#include <utility>

namespace tp {

SourceDecorator::SourceDecorator(std::unique_ptr<WeightSource> stored) : stored_(std::move(stored)) {}

bool SourceDecorator::contains(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.contains(place.name);
}

std::vector<std::string> SourceDecorator::names() const { return stored_->names(); }

std::string SourceDecorator::stored_name(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.stored_name(place.name);
}

DType SourceDecorator::dtype(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.dtype(place.name);
}

std::optional<WeightType> SourceDecorator::group_type(const std::string& name, Range columns) const {
  const Place place = place_of(name);
  return place.source.group_type(place.name, columns);
}

void SourceDecorator::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  const Place place = place_of(name);
  place.source.expect(place.name, shape, reason);
}

void SourceDecorator::read_exactly(const ColumnReader& columns) { stored_->read_exactly(columns); }

void SourceDecorator::fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
                            Sharded sharded) const {
  const Place place = place_of(name);
  place.source.fetch(place.name, shape, slices, sharded);
}

void SourceDecorator::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                           TensorView<float> out) const {
  const Place place = place_of(name);
  place.source.read(place.name, shape, slice, out);
}

std::optional<StoredRows> SourceDecorator::stored_rows(const std::string& name, MatrixShape shape,
                                                       const TensorSlice& slice) const {
  const Place place = place_of(name);
  return place.source.stored_rows(place.name, shape, slice);
}

std::optional<MappedRows> SourceDecorator::mapped_rows(const std::string& name, MatrixShape shape) const {
  const Place place = place_of(name);
  return place.source.mapped_rows(place.name, shape);
}

void SourceDecorator::read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                  const kernels::GroupedRows& out) const {
  const Place place = place_of(name);
  place.source.read_groups(place.name, shape, slice, out);
}

void SourceDecorator::read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                     const kernels::QuantizedRows& out) const {
  const Place place = place_of(name);
  place.source.read_quantized(place.name, shape, slice, out);
}

void SourceDecorator::read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                  const kernels::ScaledRows& out) const {
  const Place place = place_of(name);
  place.source.read_scaled(place.name, shape, slice, out);
}

StoredScales SourceDecorator::scales_of(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.scales_of(place.name);
}

std::vector<std::int64_t> SourceDecorator::whole_numbers(const std::string& name, MatrixShape shape,
                                                         const std::string& reason) const {
  const Place place = place_of(name);
  return place.source.whole_numbers(place.name, shape, reason);
}

std::vector<TypeUse> SourceDecorator::types() const { return stored_->types(); }
std::size_t SourceDecorator::stored_bytes() const { return stored_->stored_bytes(); }
std::size_t SourceDecorator::bytes_read() const { return stored_->bytes_read(); }
std::vector<std::string> SourceDecorator::unread() const { return stored_->unread(); }
std::vector<const MappedFile*> SourceDecorator::mapped_files() const { return stored_->mapped_files(); }
std::uint64_t SourceDecorator::fingerprint() const { return stored_->fingerprint(); }

void SourceDecorator::done_with(const std::string& name) const {
  const Place place = place_of(name);
  place.source.done_with(place.name);
}

}  // namespace tp
