// Rows for people to read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Right-aligned columns, separated by at least two spaces.
class Table {
 public:
  // Columns are at least as wide as their names and their entries in `widths`.
  explicit Table(std::vector<std::string> names, const std::vector<std::size_t>& widths = {});

  // Adds a row for text(). It has one cell per column, and widens columns if necessary.
  void add(std::vector<std::string> cells);
  // Returns the names and all rows, with their newlines.
  std::string text() const;

  // Returns a line of a table that is printed while it grows: cells in the columns' current widths.
  std::string line(const std::vector<std::string>& cells) const;
  std::string header() const { return line(rows_.front()); }

 private:
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;  // the names come first
};

}  // namespace tp
