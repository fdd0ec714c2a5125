#include "model/weights/source/fetched_columns.h"

#include <utility>

namespace tp {

FetchedColumns::FetchedColumns(std::size_t rows, std::vector<Range> wanted) : wanted_(std::move(wanted)) {
  for (const Range& range : wanted_) stride_ += range.size();
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(rows * stride_);
}

const std::byte* FetchedColumns::find(Range bytes) const {
  const std::byte* data = bytes_.get();
  for (const Range& range : wanted_) {
    if (bytes.begin >= range.begin && bytes.end <= range.end) return data + (bytes.begin - range.begin);
    data += range.size();
  }
  return nullptr;
}

}  // namespace tp
