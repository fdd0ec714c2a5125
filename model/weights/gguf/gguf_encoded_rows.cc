#include "model/weights/gguf/gguf_encoded_rows.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/source/widen.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kGroup = 32;
constexpr std::string_view kTable = ".engram_embd.weight";

std::uint16_t scale_bits(const GgufType& type, const std::byte* row, std::size_t group) {
  return bf16_of_e8m0(std::to_integer<std::uint8_t>(row[type.block_elements + group]));
}

// Files without this key contain their tables.
void require_tables_inside(const ModelMetadata& model, std::string_view encoding) {
  const std::string_view storage = model.text_or("engram.storage", "embedded");
  require<CheckpointError>(
      storage == "embedded",
      "{}: engram.storage must be embedded, found {}: the rows of hash tables are in files beside the model, "
      "which cannot be read (engram.encoding: {}); use a GGUF file that contains the tensors "
      "blk.N.engram_embd.weight, or the safetensors files of the model",
      model.files().name(), printable(storage), encoding.empty() ? "none" : printable(encoding));
}

}  // namespace

void find_encoded_rows(GgufFiles& files) {
  const ModelMetadata model(files);
  const std::string_view encoding = model.text_or("engram.encoding", "");
  require_tables_inside(model, encoding);
  std::vector<std::string> tables;
  for (const auto& [name, entry] : files.tensors()) {
    const GgufTensor& tensor = entry.tensor;
    const bool is_known = name.ends_with(kTable) && tensor.type.name == "I8" && tensor.shape.size() == 2 &&
                          tensor.shape.back() % (kGroup + 1) == 0 &&
                          encoding == fmt::format("e4m3_e8m0_{}_row{}", kGroup, tensor.shape.back());
    if (is_known) tables.push_back(name);
  }
  for (const std::string& name : tables) {
    GgufTensor tensor = files.find(name)->tensor;
    const std::size_t row_bytes = tensor.shape.back();
    const std::size_t elements = row_bytes / (kGroup + 1) * kGroup;
    tensor.type = {tensor.type.id, "F8_E4M3", elements, row_bytes, true};
    tensor.shape.back() = elements;
    files.describe_as(tensor);
  }
}

void dequantize_encoded_row(const GgufType& type, const std::byte* row, Range columns, float* out) {
  for (std::size_t column = columns.begin; column < columns.end;) {
    const std::size_t group = column / kGroup;
    const std::size_t end = std::min(columns.end, (group + 1) * kGroup);
    widen_f8_e4m3(row + column, end - column, float_from_bf16(scale_bits(type, row, group)), out);
    out += end - column;
    column = end;
  }
}

void read_encoded_row(const GgufType& type, const std::byte* row, Range columns,
                      const kernels::ScaledRows& out) {
  if (columns.empty()) return;
  std::memcpy(out.elements, row + columns.begin, columns.size());
  const Range groups = scales_of_encoded_row(type).groups_of(columns);
  for (std::size_t i = 0; i < groups.size(); ++i) out.scales[i] = scale_bits(type, row, groups.begin + i);
}

StoredScales scales_of_encoded_row(const GgufType& type) {
  return {.type = kernels::ScaleType::bf16, .column_block = kGroup, .groups = type.block_elements / kGroup};
}

}  // namespace tp
