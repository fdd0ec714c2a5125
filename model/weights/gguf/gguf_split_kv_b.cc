#include "model/weights/gguf/gguf_split_kv_b.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_factor.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <vector>

namespace tp {
namespace {

// Row `row` of a stack, counted through all matrices.
const std::byte* row_of(const GgufFiles::Entry& entry, std::size_t row) {
  return entry.file.bytes().data() + entry.tensor.bytes.begin + row * entry.tensor.row_bytes();
}

std::size_t bytes_touched(const GgufType& type, Range columns) {
  const std::size_t width = type.block_elements;
  return ((columns.end + width - 1) / width - columns.begin / width) * type.block_bytes;
}

}  // namespace

std::optional<GgufSplitKvB> GgufSplitKvB::find(const GgufFiles& files, const std::string& tensor) {
  constexpr std::string_view kWhole = "attn_kv_b.weight";
  if (!tensor.ends_with(kWhole)) return std::nullopt;
  const std::string block = tensor.substr(0, tensor.size() - kWhole.size());
  GgufSplitKvB split{files.find(block + "attn_k_b.weight"), files.find(block + "attn_v_b.weight")};
  if (split.keys == nullptr || split.values == nullptr) return std::nullopt;
  const std::vector<std::size_t>& keys = split.keys->tensor.shape;
  const std::vector<std::size_t>& values = split.values->tensor.shape;
  if (keys.size() != 3 || values.size() != 3 || keys[0] != values[0] || keys[1] != values[2]) {
    throw_error<CheckpointError>(
        "{}: {}attn_k_b.weight is {} and {}attn_v_b.weight is {}, expected [heads, kv_lora_rank, "
        "qk_nope_head_dim] and [heads, v_head_dim, kv_lora_rank]; convert the checkpoint to GGUF again",
        files.name(), block, printable(keys), block, printable(values));
  }
  split.key_factor = factor_of(files, split.keys->tensor, std::nullopt);
  split.value_factor = factor_of(files, split.values->tensor, std::nullopt);
  return split;
}

void GgufSplitKvB::will_need(Range rows) const {
  const std::size_t head_rows = key_rows() + value_rows();
  const Range wanted{rows.begin / head_rows, (rows.end + head_rows - 1) / head_rows};
  for (const GgufFiles::Entry* entry : {keys, values}) {
    const std::size_t head_bytes = entry->tensor.bytes.size() / heads();
    const std::size_t begin = entry->tensor.bytes.begin;
    entry->file.will_need({begin + wanted.begin * head_bytes, begin + wanted.end * head_bytes});
  }
}

std::size_t GgufSplitKvB::read(const TensorSlice& slice, TensorView<float> out) const {
  const std::size_t head_rows = key_rows() + value_rows();
  std::size_t bytes = 0;
  for (std::size_t row = slice.rows.begin; row < slice.rows.end;) {
    const std::size_t head = row / head_rows;
    const std::size_t first = row % head_rows;
    const bool is_key = first < key_rows();
    const std::size_t left = (is_key ? key_rows() : head_rows) - first;
    const std::size_t count = std::min(left, slice.rows.end - row);
    const TensorView<float> part = out.rows_from(row - slice.rows.begin, count);
    bytes += is_key
                 ? read_keys(head, {first, first + count}, slice.columns, part)
                 : read_values(head, {first - key_rows(), first - key_rows() + count}, slice.columns, part);
    row += count;
  }
  return bytes;
}

// The matrix's columns are rows in the file.
std::size_t GgufSplitKvB::read_keys(std::size_t head, Range rows, Range columns,
                                    TensorView<float> out) const {
  std::vector<float> stored(rows.size());
  for (std::size_t column = 0; column < columns.size(); ++column) {
    const std::size_t row = head * shape().columns + columns.begin + column;
    dequantize(keys->tensor.type, row_of(*keys, row), rows, key_factor, stored.data());
    for (std::size_t i = 0; i < stored.size(); ++i) out(i, column) = stored[i];
  }
  return columns.size() * bytes_touched(keys->tensor.type, rows);
}

std::size_t GgufSplitKvB::read_values(std::size_t head, Range rows, Range columns,
                                      TensorView<float> out) const {
  for (std::size_t i = 0; i < rows.size(); ++i)
    dequantize(values->tensor.type, row_of(*values, head * value_rows() + rows.begin + i), columns,
               value_factor, out.row(i));
  return rows.size() * bytes_touched(values->tensor.type, columns);
}

}  // namespace tp
