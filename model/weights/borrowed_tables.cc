#include "model/weights/borrowed_tables.h"

#include "parallel/machine/hash.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tp {

BorrowedTables::BorrowedTables(std::unique_ptr<WeightSource> own, std::unique_ptr<WeightSource> target,
                               std::map<std::string, std::string> names)
    : own_(std::move(own)), target_(std::move(target)), names_(std::move(names)) {}

BorrowedTables::Place BorrowedTables::place_of(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return {*own_, name};
  return {*target_, found->second};
}

bool BorrowedTables::contains(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.contains(place.name);
}

std::vector<std::string> BorrowedTables::names() const {
  std::vector<std::string> all = own_->names();
  for (const auto& [own, target] : names_) all.push_back(own);
  std::ranges::sort(all);
  return all;
}

std::string BorrowedTables::stored_name(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.stored_name(place.name);
}

DType BorrowedTables::dtype(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.dtype(place.name);
}

std::optional<WeightType> BorrowedTables::group_type(const std::string& name, Range columns) const {
  const Place place = place_of(name);
  return place.source.group_type(place.name, columns);
}

void BorrowedTables::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  const Place place = place_of(name);
  place.source.expect(place.name, shape, reason);
}

void BorrowedTables::read_exactly(const ColumnReader& columns) {
  own_->read_exactly(columns);
  target_->read_exactly(columns);
}

void BorrowedTables::fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
                           Sharded sharded) const {
  const Place place = place_of(name);
  place.source.fetch(place.name, shape, slices, sharded);
}

void BorrowedTables::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                          TensorView<float> out) const {
  const Place place = place_of(name);
  place.source.read(place.name, shape, slice, out);
}

std::optional<StoredRows> BorrowedTables::stored_rows(const std::string& name, MatrixShape shape,
                                                      const TensorSlice& slice) const {
  const Place place = place_of(name);
  return place.source.stored_rows(place.name, shape, slice);
}

void BorrowedTables::read_groups(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                 const kernels::GroupedRows& out) const {
  const Place place = place_of(name);
  place.source.read_groups(place.name, shape, slice, out);
}

void BorrowedTables::read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                    const kernels::QuantizedRows& out) const {
  const Place place = place_of(name);
  place.source.read_quantized(place.name, shape, slice, out);
}

void BorrowedTables::read_scaled(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                 const kernels::ScaledRows& out) const {
  const Place place = place_of(name);
  place.source.read_scaled(place.name, shape, slice, out);
}

StoredScales BorrowedTables::scales_of(const std::string& name) const {
  const Place place = place_of(name);
  return place.source.scales_of(place.name);
}

std::uint64_t BorrowedTables::fingerprint() const {
  return hash_of(fmt::format("{} with tables of {}", own_->fingerprint(), target_->fingerprint()));
}

void BorrowedTables::done_with(const std::string& name) const {
  const Place place = place_of(name);
  place.source.done_with(place.name);
}

}  // namespace tp
