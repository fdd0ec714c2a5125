// The rows of a step's activations, grouped by adapter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace tp {

class AdapterRows {
 public:
  struct Group {
    std::size_t adapter = 0;          // index + 1
    std::vector<std::size_t> rows{};  // in ascending order
  };

  AdapterRows() = default;
  // adapters: [rows] index + 1 of each row's adapter, 0 for none; or empty, if no row has an adapter.
  explicit AdapterRows(std::span<const std::uint32_t> adapters) : of_row_(adapters.begin(), adapters.end()) {
    std::map<std::size_t, std::vector<std::size_t>> rows;
    for (std::size_t row = 0; row < of_row_.size(); ++row) {
      if (of_row_[row] != 0) rows[of_row_[row]].push_back(row);
    }
    for (auto& [adapter, own] : rows) groups_.push_back({adapter, std::move(own)});
  }

  // Whether no row has an adapter.
  bool empty() const { return groups_.empty(); }
  // The number of rows; 0 if it is not known because none has an adapter.
  std::size_t rows() const { return of_row_.size(); }
  std::span<const Group> groups() const { return groups_; }

  // The groups of activations that consist of these rows.
  AdapterRows of(std::span<const std::size_t> rows) const {
    if (empty()) return {};
    std::vector<std::uint32_t> adapters(rows.size());
    std::ranges::transform(rows, adapters.begin(), [&](std::size_t row) { return of_row_[row]; });
    return AdapterRows(adapters);
  }

 private:
  std::vector<std::uint32_t> of_row_;
  std::vector<Group> groups_;
};

}  // namespace tp
