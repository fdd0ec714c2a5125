#include "model/weights/gguf/gguf_place.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tp {

bool GgufOrder::fits(std::size_t rows) const {
  if (kind == Kind::as_it_was) return true;
  if (kind == Kind::tiled) {  // a product of numbers from the file could overflow
    const std::size_t heads = head_dim == 0 || rows < first ? 0 : (rows - first) / head_dim;
    return heads != 0 && (rows - first) % head_dim == 0 && heads % groups == 0 && heads / groups == per_group;
  }
  const bool has_whole_heads = head_dim != 0 && rows % head_dim == 0;
  if (kind == Kind::interleaved) return has_whole_heads && head_dim % 2 == 0;
  return has_whole_heads && rows / head_dim == groups * (per_group + 2);
}

std::size_t GgufOrder::stored(std::size_t row) const {
  switch (kind) {
    case Kind::as_it_was:
      return row;
    case Kind::interleaved: {
      const std::size_t half = head_dim / 2;
      return row / head_dim * head_dim + row % half * 2 + row % head_dim / half;
    }
    case Kind::by_kind: {
      const std::size_t group = row / head_dim / (per_group + 2);
      const std::size_t head = row / head_dim % (per_group + 2);
      const std::size_t stored_head = head < per_group
                                          ? group * per_group + head
                                          : groups * head + group;  // key: per_group; value: one more
      return stored_head * head_dim + row % head_dim;
    }
    case Kind::tiled: {
      if (row < first) return row;
      const std::size_t head = (row - first) / head_dim;
      const std::size_t stored_head = head % per_group * groups + head / per_group;
      return first + stored_head * head_dim + (row - first) % head_dim;
    }
  }
  return row;
}

std::vector<GgufOrder::Run> GgufOrder::runs(Range places) const {
  if (keeps_places()) return {{places.begin, places}};
  std::vector<Run> runs;
  for (std::size_t place = places.begin; place < places.end; ++place) {
    const std::size_t in_file = stored(place);
    if (runs.empty() || runs.back().stored.end != in_file) runs.push_back({place, {in_file, in_file}});
    ++runs.back().stored.end;
  }
  return runs;
}

std::vector<Range> GgufOrder::stored_ranges(Range places) const {
  std::vector<Run> parts = runs(places);
  std::ranges::sort(parts, {}, [](const Run& run) { return run.stored.begin; });
  std::vector<Range> ranges;
  for (const Run& run : parts) {
    if (ranges.empty() || ranges.back().end != run.stored.begin)
      ranges.push_back(run.stored);
    else
      ranges.back().end = run.stored.end;
  }
  return ranges;
}

std::optional<MatrixShape> GgufPlace::matrix_shape(const std::vector<std::size_t>& extents) const {
  if (is_stack)
    return extents.size() == 3 ? std::optional(MatrixShape{extents[0] * extents[1], extents[2]})
                               : std::nullopt;
  const std::size_t elements =
      std::accumulate(extents.begin(), extents.end(), std::size_t{1}, std::multiplies<>());
  if (vector_row != 0) return MatrixShape{1, elements};
  if (matrix_row != 0)
    return elements != 0 && elements % matrix_row == 0
               ? std::optional(MatrixShape{elements / matrix_row, matrix_row})
               : std::nullopt;
  const bool is_flattened = extents_of_1 != 0 || (may_be_stack && extents.size() == 3);
  if (is_flattened && elements != 0) return MatrixShape{elements / extents.back(), extents.back()};
  const std::size_t dimensions = extents.size() - (expert ? 1 : 0);
  if (dimensions < 1 || dimensions > 2 || (expert && *expert >= extents.front())) return std::nullopt;
  const std::size_t rows = dimensions == 2 ? extents[extents.size() - 2] : 1;
  if (is_transposed) return MatrixShape{extents.back(), rows};
  return MatrixShape{rows, extents.back()};
}

}  // namespace tp
