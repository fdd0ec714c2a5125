// Quantized checkpoints with any config and tensors: reads all their weights. An input is the text of
// config.json, a zero byte and a safetensors file.
#include "model/weights/quantized/group_checkpoint.h"
#include "tests/fuzz/fuzz_files.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace tp {
namespace {

// Packs up to 16 rows and some columns like a weight in memory.
void pack(const WeightSource& source, const std::string& name, MatrixShape shape, const TensorSlice& slice,
          WeightType type) {
  const std::size_t rows = slice.rows.size();
  const std::size_t columns = slice.columns.size();
  kernels::PackedLayout layout{type, rows, columns};
  std::vector<float> values(columns);
  if (kernels::is_scaled(type)) {
    const StoredScales scales = source.scales_of(name);
    const std::size_t groups = scales.groups_of(slice.columns).size();
    const std::size_t block = scales.column_block;
    layout.scaled = {kernels::scaled_element(type),
                     scales.type,
                     scales.has_zero_points,
                     16,
                     groups,
                     block,
                     block == 0 ? 0 : slice.columns.begin % block};
    std::vector<std::uint8_t> elements(rows * columns);
    std::vector<std::uint32_t> of_groups(rows * groups);
    std::vector<std::uint8_t> zero_points(rows * groups);
    const std::vector<std::uint8_t> scale_rows(rows, 0);
    const kernels::ScaledRows staged{
        rows, columns, groups, elements.data(), of_groups.data(), zero_points.data(), scale_rows.data()};
    source.read_scaled(name, shape, slice, staged);
    std::vector<std::byte> memory(layout.bytes());
    if (layout.has_column_groups())
      kernels::set_column_groups(layout, scales.column_groups.subspan(slice.columns.begin, columns),
                                 memory.data());
    kernels::pack_scaled(layout, 0, staged, memory.data());
    kernels::unpack_row({layout, memory.data()}, rows - 1, values.data());
    return;
  }
  const kernels::QuantFormat& format = *kernels::quant_format(type);
  constexpr std::size_t kSuper = kernels::QuantizedRows::kColumns;
  layout.phase = slice.columns.begin % kSuper;
  const std::size_t supers = (slice.columns.end + kSuper - 1) / kSuper - slice.columns.begin / kSuper;
  std::vector<std::uint8_t> elements(rows * supers * kSuper);
  std::vector<std::uint8_t> scales(rows * supers * kernels::QuantizedRows::groups(format));
  std::vector<std::uint8_t> offsets(scales.size());
  std::vector<std::uint16_t> halves(rows * supers * kernels::QuantizedRows::halves_of(format));
  const kernels::QuantizedRows staged{rows,          supers,         elements.data(),
                                      scales.data(), offsets.data(), halves.data()};
  source.read_quantized(name, shape, slice, staged);
  std::vector<std::byte> memory(layout.bytes());
  kernels::pack_quantized(layout, 0, staged, memory.data());
  kernels::unpack_row({layout, memory.data()}, rows - 1, values.data());
}

// Reads the last rows and columns of a weight, at most 16 and 300.
void read_last(const WeightSource& source, const std::string& name, MatrixShape shape) {
  if (shape.size() == 0) return;
  source.expect(name, shape, "");
  const TensorSlice slice{{shape.rows - std::min<std::size_t>(shape.rows, 16), shape.rows},
                          {shape.columns - std::min<std::size_t>(shape.columns, 300), shape.columns}};
  std::vector<float> values(slice.size());
  source.read(name, shape, slice, {values.data(), slice.rows.size(), slice.columns.size()});
  if (const std::optional<WeightType> type = source.group_type(name, slice.columns))
    pack(source, name, shape, slice, *type);
}

// Returns the shape that an error about a wrong shape names: "NAME holds [2, 3], expected [1, 1]".
MatrixShape shape_of(const WeightSource& source, const std::string& name) {
  try {
    source.expect(name, {1, 1}, "");
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* before : {" holds [", " is ["}) {
      const std::size_t place = text.find(before);
      unsigned long long rows = 0;
      unsigned long long columns = 0;
      if (place != std::string::npos &&
          std::sscanf(text.c_str() + text.find('[', place), "[%llu, %llu]", &rows, &columns) == 2)
        return {rows, columns};
    }
    return {0, 0};
  }
  return {1, 1};
}

}  // namespace
}  // namespace tp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tp;
  static const ScratchFolder folder;
  const auto parts = divided_at_zero({data, size});
  if (!parts) return 0;
  folder.write("config.json", parts->first);
  folder.write("model.safetensors", parts->second);
  expect_error_or_none([&] {
    const GroupCheckpoint source(SafetensorsCheckpoint::open(folder.path()),
                                 find_group_quantization(folder.path()).value_or(GroupQuantization{}));
    source.types();
    for (const std::string& name : source.names())
      expect_error_or_none([&] { read_last(source, name, shape_of(source, name)); });
  });
  return 0;
}
