#include "model/weights/source/slice_check.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

namespace tp {

void check_slice(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                 TensorView<float> out) {
  if (!slice.fits(shape)) {
    throw_error<CheckpointError>(
        "cannot read rows {} to {} and columns {} to {} of {}: it has only [{}, {}] (an error in this "
        "program)",
        slice.rows.begin, slice.rows.end, slice.columns.begin, slice.columns.end, printable(name), shape.rows,
        shape.columns);
  }
  if (!(out.rows() == slice.rows.size() && out.columns() == slice.columns.size())) {
    throw_error<CheckpointError>(
        "cannot read [{}, {}] elements of {} into [{}, {}] (an error in this program)", slice.rows.size(),
        slice.columns.size(), printable(name), out.rows(), out.columns());
  }
}

}  // namespace tp
