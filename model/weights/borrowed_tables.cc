#include "model/weights/borrowed_tables.h"

#include "parallel/machine/hash.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tp {

BorrowedTables::BorrowedTables(std::unique_ptr<WeightSource> own, std::unique_ptr<WeightSource> target,
                               std::map<std::string, std::string> names)
    : SourceDecorator(std::move(own)), target_(std::move(target)), names_(std::move(names)) {}

BorrowedTables::Place BorrowedTables::place_of(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return {stored(), name};
  return {*target_, found->second};
}

std::vector<std::string> BorrowedTables::names() const {
  std::vector<std::string> all = stored().names();
  for (const auto& [own, target] : names_) all.push_back(own);
  std::ranges::sort(all);
  return all;
}

void BorrowedTables::read_exactly(const ColumnReader& columns) {
  SourceDecorator::read_exactly(columns);
  target_->read_exactly(columns);
}

std::uint64_t BorrowedTables::fingerprint() const {
  return hash_of(fmt::format("{} with tables of {}", stored().fingerprint(), target_->fingerprint()));
}

}  // namespace tp
