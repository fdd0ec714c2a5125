// Rows for people to read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Columns, aligned to the right, with two spaces between them whatever their cells hold.
class Table {
 public:
  // Columns are at least as wide as their names and as `widths`, where that has an entry.
  explicit Table(std::vector<std::string> names, const std::vector<std::size_t>& widths = {});

  // A row for text(), which makes the columns as wide as it needs; it has a cell for every column.
  void add(std::vector<std::string> cells);
  // The names and all rows, with their newlines.
  std::string text() const;

  // A line of a table that is printed while it grows: cells in the columns' current widths.
  std::string line(const std::vector<std::string>& cells) const;
  std::string header() const { return line(rows_.front()); }

 private:
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;  // the names first
};

}  // namespace tp
