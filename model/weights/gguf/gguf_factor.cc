#include "model/weights/gguf/gguf_factor.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_dequantize.h"
#include "tp/internal/require.h"

#include <cstring>
#include <string>
#include <string_view>

namespace tp {
namespace {

constexpr std::string_view kWeight = ".weight";

// The name without this end, or nothing.
std::optional<std::string> without(std::string_view name, std::string_view end) {
  if (!name.ends_with(end)) return std::nullopt;
  return std::string(name.substr(0, name.size() - end.size()));
}

}  // namespace

float factor_of(const GgufFiles& files, const GgufTensor& tensor, std::optional<std::size_t> expert) {
  if (tensor.type.name != "NVFP4") return 1.0F;
  const std::optional<std::string> layer = without(tensor.name, kWeight);
  const GgufFiles::Entry* const entry = layer ? files.find(*layer + ".scale") : nullptr;
  if (entry == nullptr) return 1.0F;
  const std::size_t count = expert ? tensor.shape.front() : 1;
  const Range bytes = entry->tensor.bytes;
  require<CheckpointError>(entry->tensor.type.name == "F32" && bytes.size() == count * sizeof(float),
                           "{}: {} is {} of {}, expected {} of F32; convert the checkpoint to GGUF again",
                           entry->file.name(), printable(entry->tensor.name), printable(entry->tensor.shape),
                           entry->tensor.type.name, count);
  float factor = 0.0F;
  std::memcpy(&factor, entry->file.bytes().data() + bytes.begin + expert.value_or(0) * sizeof factor,
              sizeof factor);
  return factor;
}

const GgufTensor* matrix_of_factors(const GgufFiles& files, const GgufTensor& tensor) {
  for (const std::string_view end : {".scale", ".input_scale"}) {
    const std::optional<std::string> layer = without(tensor.name, end);
    const GgufFiles::Entry* const weight = layer ? files.find(*layer + std::string(kWeight)) : nullptr;
    if (weight != nullptr && weight->tensor.type.name == "NVFP4") return &weight->tensor;
  }
  return nullptr;
}

void dequantize(const GgufType& type, const std::byte* row, Range columns, float factor, float* out) {
  dequantize(type, row, columns, out);
  if (factor == 1.0F) return;
  for (std::size_t i = 0; i < columns.size(); ++i) out[i] *= factor;
}

void set_factor(float factor, const kernels::QuantizedRows& rows) {
  for (std::size_t i = 0; i < rows.rows * rows.super_blocks; ++i)
    std::memcpy(rows.halves + 2 * i, &factor, sizeof factor);
}

}  // namespace tp
