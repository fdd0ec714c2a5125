// Rows of logits or of hidden states, known by some of their elements and by sums of all of them.
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

// A table of rows as in an expected.json.
RowTable row_table(const nlohmann::json& rows, std::size_t positions, std::size_t columns);
// The table of all elements.
RowTable row_table(TensorView<const float> whole);
// Rows of an expected.json that have no position: they follow each other from `first` on.
nlohmann::json rows_from(std::size_t first, nlohmann::json rows);
// The rows of one sequence of a batch.
nlohmann::json rows_of_sequence(std::size_t sequence, const nlohmann::json& rows);

class ExpectedRows {
 public:
  ExpectedRows() = default;
  ExpectedRows(RowTable table) : table_(std::make_shared<RowTable>(std::move(table))) {}
  // Reads the table when it is needed first. Most tests of many fixtures need none, or on one rank only.
  explicit ExpectedRows(std::function<RowTable()> read) : read_(std::move(read)) {}

  std::size_t positions() const { return table().positions; }
  std::size_t columns() const { return table().columns; }

  // How far `found`, [positions(), columns()], is from what is expected, in units of one element: the largest
  // of the differences of values, of projections divided by sqrt(columns), and of log-sum-exps. Infinite for
  // another shape, and for what is not a number.
  double difference(std::span<const float> found) const;
  // The difference at one position; infinite if the fixture has no row for it.
  double difference(std::size_t position, std::span<const float> found) const;

 private:
  const RowTable& table() const;

  std::function<RowTable()> read_;
  mutable std::shared_ptr<const RowTable> table_;
};

}  // namespace tp::reference
