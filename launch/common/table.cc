#include "launch/common/table.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

Table::Table(std::vector<std::string> names, const std::vector<std::size_t>& widths) : widths_(widths) {
  widths_.resize(names.size());
  add(std::move(names));
}

void Table::add(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < widths_.size(); ++i) widths_[i] = std::max(widths_[i], cells.at(i).size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::string text;
  for (const std::vector<std::string>& cells : rows_) text += line(cells);
  return text;
}

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < widths_.size(); ++i)
    line += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", cells.at(i), widths_[i]);
  return line + "\n";
}

}  // namespace tp
