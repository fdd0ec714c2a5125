#include "model/weights/finite_weights.h"
#include "model/weights/panel_queue.h"
#include "model/weights/staging.h"
#include "model/weights/weight_loader.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <optional>

#include <omp.h>

namespace tp {

// Reads slices, stacked vertically, a panel of rows at a time, and packs them. Threads share it.
class WeightLoader::Packing {
 public:
  Packing(const WeightLoader& loader, std::span<const Slice> slices, LocalWeight& weight)
      : loader_(loader),
        source_(loader.source_),
        slices_(slices),
        weight_(weight),
        format_(kernels::quant_format(weight.layout().type)),
        form_(format_ != nullptr                             ? Staging::Form::quantized
              : kernels::is_scaled(weight.layout().type)     ? Staging::Form::scaled
              : loader.takes_groups(slices, weight.layout()) ? Staging::Form::groups
                                                             : Staging::Form::floats) {
    if (form_ == Staging::Form::scaled) scale_rows_ = loader.scale_rows_of(slices);
  }

  Staging::Form form() const { return form_; }

  void pack(Range wanted, Staging& staging) const {
    if (form_ == Staging::Form::quantized) return pack_quantized(wanted, staging);
    if (form_ == Staging::Form::scaled) return pack_scaled(wanted, staging);
    if (form_ == Staging::Form::groups) return pack_groups(wanted, staging);
    if (const std::optional<StoredRows> stored = stored_rows(wanted))
      weight_.pack(wanted.begin, *stored);
    else
      pack_floats(wanted, staging);
  }

 private:
  // Calls read(slice, its part in `wanted`, first row of the part relative to `wanted`).
  template <class Read>
  void for_slices(Range wanted, const Read& read) const {
    std::size_t first = 0;  // first row of the current slice, among all rows
    for (const Slice& slice : slices_) {
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
  }

  // Rows of a single slice need not be copied if the source has them in memory.
  std::optional<StoredRows> stored_rows(Range wanted) const {
    std::optional<StoredRows> stored;
    for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t /*row*/) {
      if (part.rows.size() == wanted.size() && !slice.transposed) {
        stored = source_.stored_rows(slice.name, slice.shape, part);
        if (stored) require_finite(source_, slice.name, *stored);
      }
    });
    return stored;
  }

  void pack_quantized(Range wanted, Staging& staging) const {
    const kernels::QuantizedRows staged = staging.quantized(wanted.size());
    for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
      const kernels::QuantizedRows own = staged.rows_from(*format_, row, part.rows.size());
      source_.read_quantized(slice.name, slice.shape, part, own);
      require_finite(source_, slice.name, own, *format_);
    });
    weight_.pack(wanted.begin, staged);
  }

  void pack_scaled(Range wanted, Staging& staging) const {
    const kernels::ScaledRows staged = staging.scaled(wanted.size(), scale_rows_.data() + wanted.begin);
    for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
      const kernels::ScaledRows own = staged.rows_from(row, part.rows.size());
      source_.read_scaled(slice.name, slice.shape, part, own);
      require_finite(source_, slice.name, own, weight_.layout().scaled);
    });
    weight_.pack(wanted.begin, staged);
  }

  void pack_groups(Range wanted, Staging& staging) const {
    const kernels::GroupedRows staged = staging.groups(wanted.size());
    for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
      const kernels::GroupedRows own = staged.rows_from(row, part.rows.size());
      source_.read_groups(slice.name, slice.shape, part, own);
      require_finite(source_, slice.name, own);
    });
    weight_.pack(wanted.begin, staged);
  }

  void pack_floats(Range wanted, Staging& staging) const {
    const TensorView<float> staged = staging.floats(wanted.size());
    for_slices(wanted, [&](const Slice& slice, const TensorSlice& part, std::size_t row) {
      const TensorView<float> own = staged.rows_from(row, part.rows.size());
      loader_.read(slice, part, own);
      require_finite(source_, slice.name, StoredRows::of(own));
    });
    weight_.pack(wanted.begin, StoredRows::of(staged));
  }

  const WeightLoader& loader_;
  const WeightSource& source_;
  std::span<const Slice> slices_;
  LocalWeight& weight_;
  const kernels::QuantFormat* format_;  // null unless rows are quantized
  Staging::Form form_;
  std::vector<std::uint8_t> scale_rows_;
};

void WeightLoader::pack(std::span<const Slice> slices, Sharded sharded, LocalWeight& weight) const {
  fetch(slices, sharded);
  const kernels::PackedLayout& layout = weight.layout();
  if (layout.has_column_groups()) {
    const Range wanted = slices.front().part.columns;
    weight.set_column_groups(
        source_.scales_of(slices.front().name).column_groups.subspan(wanted.begin, wanted.size()));
  }
  const Packing packing(*this, slices, weight);
  const std::size_t rows = layout.out_features;
  const std::size_t panels = (rows + Staging::kRows - 1) / Staging::kRows;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  PanelQueue queue(panels, threads);
  for_thread_parts(threads, rows * layout.in_features, [&](std::size_t thread, std::size_t /*end*/) {
    Staging staging(layout, packing.form());
    while (const std::optional<std::size_t> panel = queue.take(thread))
      packing.pack({*panel * Staging::kRows, std::min(rows, (*panel + 1) * Staging::kRows)}, staging);
  });
}

}  // namespace tp
