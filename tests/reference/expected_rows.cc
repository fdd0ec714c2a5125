#include "tests/reference/expected_rows.h"

#include "tests/reference/seeded_weights.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

namespace tp::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns signs: bit j is the sign of a column in sum j. Computed once.
const std::vector<std::uint64_t>& sign_bits(std::size_t columns) {
  static std::vector<std::uint64_t> bits;
  while (bits.size() < columns) bits.push_back(splitmix64(0xABCD + bits.size()));
  return bits;
}

std::array<double, 8> projections_of(std::span<const float> row) {
  const std::vector<std::uint64_t>& bits = sign_bits(row.size());
  std::array<double, 8> sums{};
  for (std::size_t v = 0; v < row.size(); ++v) {
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += (bits[v] >> j & 1) != 0 ? row[v] : -row[v];
  }
  return sums;
}

double logsumexp_of(std::span<const float> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const float logit : row) sum += std::exp(logit - max);
  return max + std::log(sum);
}

ExpectedRow read_row(const nlohmann::json& entry) {
  ExpectedRow row;
  row.position = entry.at("position").get<std::size_t>();
  if (entry.contains("first")) {
    row.values = entry.at("first").get<std::vector<double>>();
    row.columns.resize(row.values.size());
    std::iota(row.columns.begin(), row.columns.end(), std::size_t{0});
  }
  if (entry.contains("ids")) {
    row.columns = entry.at("ids").get<std::vector<std::size_t>>();
    row.values = entry.at("values").get<std::vector<double>>();
  }
  row.projections = entry.at("projections").get<std::array<double, 8>>();
  if (entry.contains("logsumexp")) row.logsumexp = entry.at("logsumexp").get<double>();
  return row;
}

// Keeps NaN, which std::max would drop.
void enlarge(double& largest, double difference) {
  largest = std::isnan(difference) ? kInfinity : std::max(largest, std::abs(difference));
}

double difference_of(const ExpectedRow& row, std::span<const float> found) {
  double largest = 0.0;
  for (std::size_t i = 0; i < row.values.size(); ++i)
    enlarge(largest, found[row.columns.at(i)] - row.values[i]);
  const std::array<double, 8> projections = projections_of(found);
  for (std::size_t j = 0; j < projections.size(); ++j)
    enlarge(largest, (projections[j] - row.projections[j]) / std::sqrt(static_cast<double>(found.size())));
  if (row.logsumexp) enlarge(largest, logsumexp_of(found) - *row.logsumexp);
  return largest;
}

}  // namespace

nlohmann::json rows_from(std::size_t first, nlohmann::json rows) {
  for (nlohmann::json& row : rows) row["position"] = first++;
  return rows;
}

nlohmann::json rows_of_sequence(std::size_t sequence, const nlohmann::json& rows) {
  nlohmann::json own = nlohmann::json::array();
  std::ranges::copy_if(rows, std::back_inserter(own),
                       [&](const auto& row) { return row.at("row") == sequence; });
  return own;
}

RowTable row_table(const nlohmann::json& rows, std::size_t positions, std::size_t columns) {
  RowTable table{positions, columns, {}};
  for (const nlohmann::json& row : rows) table.rows.push_back(read_row(row));
  return table;
}

RowTable row_table(TensorView<const float> whole) {
  RowTable table{whole.rows(), whole.columns(), {}};
  for (std::size_t position = 0; position < whole.rows(); ++position) {
    const std::span<const float> row(whole.row(position), whole.columns());
    ExpectedRow& known = table.rows.emplace_back();
    known.position = position;
    known.values.assign(row.begin(), row.end());
    known.columns.resize(row.size());
    std::iota(known.columns.begin(), known.columns.end(), std::size_t{0});
    known.projections = projections_of(row);
  }
  return table;
}

double ExpectedRows::difference(std::span<const float> found) const {
  if (table().rows.empty() || found.size() != positions() * columns()) return kInfinity;
  double largest = 0.0;
  for (const ExpectedRow& row : table().rows)
    enlarge(largest, difference_of(row, found.subspan(row.position * columns(), columns())));
  return largest;
}

double ExpectedRows::difference(std::size_t position, std::span<const float> found) const {
  if (position >= positions() || found.size() != columns()) return kInfinity;
  const auto row = std::ranges::find(table().rows, position, &ExpectedRow::position);
  return row == table().rows.end() ? kInfinity : difference_of(*row, found);
}

const RowTable& ExpectedRows::table() const {
  if (table_ == nullptr) table_ = std::make_shared<RowTable>(read_ ? read_() : RowTable());
  return *table_;
}

}  // namespace tp::reference
