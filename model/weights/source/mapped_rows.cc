#include "model/weights/source/mapped_rows.h"

#include <utility>

namespace tp {

MappedRows::MappedRows(std::size_t rows, std::vector<Part> parts, Read read)
    : rows_(rows), parts_(std::move(parts)), read_(std::move(read)) {}

// A row is much shorter than the pages that Linux reads ahead, and its neighbours belong to other texts.
void MappedRows::expect_random_reads() const {
  for (const Part& part : parts_) {
    if (part.file) part.file->expect_random_reads(place_of(part));
  }
}

Range MappedRows::place_of(const Part& part) const {
  const std::size_t runs = (rows_ + part.rows - 1) / part.rows;
  return {part.begin, part.begin + runs * part.bytes};
}

void MappedRows::will_need(std::size_t row) const {
  for (const Part& part : parts_) {
    const std::size_t begin = part.begin + row / part.rows * part.bytes;
    if (part.file) part.file->will_need({begin, begin + part.bytes});
  }
}

std::size_t MappedRows::bytes() const {
  std::size_t bytes = 0;
  for (const Part& part : parts_) bytes += place_of(part).size();
  return bytes;
}

}  // namespace tp
