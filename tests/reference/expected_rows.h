// Rows of logits or hidden states, of which some elements and sums over all elements are known.
#pragma once

#include "tp/tensor.h"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::reference {

struct ExpectedRow {
  std::size_t position = 0;
  std::vector<std::size_t> columns;  // columns of `values`
  std::vector<double> values;
  // The sums of all elements with signs: the sign of column v in sum j is bit j of splitmix64(0xABCD + v).
  // A wrong element that is not among `values` changes all of them.
  std::array<double, 8> projections{};
  std::optional<double> logsumexp;
};

struct RowTable {
  std::size_t positions = 0;
  std::size_t columns = 0;
  std::vector<ExpectedRow> rows;  // rows of some positions
};

// Reads a table of rows from an expected.json.
RowTable row_table(const nlohmann::json& rows, std::size_t positions, std::size_t columns);
// Returns a table of all elements.
RowTable row_table(TensorView<const float> whole);
// Returns rows of an expected.json without positions. They get consecutive positions from `first` on.
nlohmann::json rows_from(std::size_t first, nlohmann::json rows);
// Returns the rows of one sequence of a batch.
nlohmann::json rows_of_sequence(std::size_t sequence, const nlohmann::json& rows);

class ExpectedRows {
 public:
  ExpectedRows() = default;
  ExpectedRows(RowTable table) : table_(std::make_shared<RowTable>(std::move(table))) {}
  // Reads the table at its first use. Most tests of many fixtures need no table, or only on one rank.
  explicit ExpectedRows(std::function<RowTable()> read) : read_(std::move(read)) {}

  std::size_t positions() const { return table().positions; }
  std::size_t columns() const { return table().columns; }

  // Returns the distance of `found`, [positions(), columns()], from the expected values, in units of one
  // element: the largest difference of values, of projections divided by sqrt(columns), and of log-sum-exps.
  // Infinite for a different shape, and for NaN.
  double difference(std::span<const float> found) const;
  // Returns the difference at one position, or infinity if the fixture has no row for it.
  double difference(std::size_t position, std::span<const float> found) const;

 private:
  const RowTable& table() const;

  std::function<RowTable()> read_;
  mutable std::shared_ptr<const RowTable> table_;
};

}  // namespace tp::reference
