#include "model/weights/finite_weights.h"
#include "model/weights/panel_queue.h"
#include "model/weights/staging.h"
#include "model/weights/weight_loader.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <optional>

#include <omp.h>

namespace tp {

void WeightLoader::pack(std::span<const Slice> slices, Sharded sharded, LocalWeight& weight) const {
  fetch(slices, sharded);

  // Calls read(slice, its part in `wanted`, first row of the part relative to `wanted`).
  const auto for_slices = [&](Range wanted, const auto& read) {
    std::size_t first = 0;  // first row of the current slice, among all rows
    for (const Slice& slice : slices) {
      const std::size_t begin = std::max(wanted.begin, first);
      const std::size_t end = std::min(wanted.end, first + slice.part.rows.size());
      if (begin < end) {
        const std::size_t offset = slice.part.rows.begin - first;  // wraps around if negative
        slice.for_runs({begin + offset, end + offset}, [&](const TensorSlice& run, std::size_t place) {
          read(slice, run, begin - wanted.begin + place);
        });
      }
      first += slice.part.rows.size();
    }
  };
  // Rows of a single slice need not be copied if the source has them in memory.
  const auto stored_rows = [&](Range wanted) {
    std::optional<StoredRows> stored;
    for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t /*row*/) {
      if (part.rows.size() == wanted.size() && !slice.transposed) {
        stored = source_.stored_rows(slice.name, slice.shape, part);
        if (stored) require_finite(slice.name, *stored);
      }
    });
    return stored;
  };
  const kernels::PackedLayout& layout = weight.layout();
  const std::size_t rows = layout.out_features;
  const std::size_t columns = layout.in_features;
  const kernels::QuantFormat* const format = kernels::quant_format(layout.type);
  const Staging::Form form = format != nullptr                 ? Staging::Form::quantized
                             : kernels::is_scaled(layout.type) ? Staging::Form::scaled
                             : takes_groups(slices, layout)    ? Staging::Form::groups
                                                               : Staging::Form::floats;
  std::vector<std::uint8_t> scale_rows;
  if (form == Staging::Form::scaled) scale_rows = scale_rows_of(slices);
  if (layout.has_column_groups()) {
    const Range wanted = slices.front().part.columns;
    weight.set_column_groups(
        source_.scales_of(slices.front().name).column_groups.subspan(wanted.begin, wanted.size()));
  }
  const std::size_t panels = (rows + Staging::kRows - 1) / Staging::kRows;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  PanelQueue queue(panels, threads);
  for_thread_parts(threads, rows * columns, [&](std::size_t thread, std::size_t /*end*/) {
    Staging staging(layout, form);
    while (const std::optional<std::size_t> panel = queue.take(thread)) {
      const Range wanted{*panel * Staging::kRows, std::min(rows, (*panel + 1) * Staging::kRows)};
      if (form == Staging::Form::quantized) {
        const kernels::QuantizedRows staged = staging.quantized(wanted.size());
        for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
          const kernels::QuantizedRows own = staged.rows_from(*format, row, part.rows.size());
          source_.read_quantized(slice.name, slice.shape, part, own);
          require_finite(slice.name, own, *format);
        });
        weight.pack(wanted.begin, staged);
      } else if (form == Staging::Form::scaled) {
        const kernels::ScaledRows staged = staging.scaled(wanted.size(), scale_rows.data() + wanted.begin);
        for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
          const kernels::ScaledRows own = staged.rows_from(row, part.rows.size());
          source_.read_scaled(slice.name, slice.shape, part, own);
          require_finite(slice.name, own, layout.scaled);
        });
        weight.pack(wanted.begin, staged);
      } else if (form == Staging::Form::groups) {
        const kernels::GroupedRows staged = staging.groups(wanted.size());
        for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
          const kernels::GroupedRows own = staged.rows_from(row, part.rows.size());
          source_.read_groups(slice.name, slice.shape, part, own);
          require_finite(slice.name, own);
        });
        weight.pack(wanted.begin, staged);
      } else if (const std::optional<StoredRows> stored = stored_rows(wanted)) {
        weight.pack(wanted.begin, *stored);
      } else {
        const TensorView<float> staged = staging.floats(wanted.size());
        for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
          const TensorView<float> own = staged.rows_from(row, part.rows.size());
          read(slice, part, own);
          require_finite(slice.name, StoredRows::of(own));
        });
        weight.pack(wanted.begin, StoredRows::of(staged));
      }
    }
  });
}

}  // namespace tp
