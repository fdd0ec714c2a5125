#include "model/weights/gguf/gguf_vector.h"

#include "model/files/printable.h"
#include "model/weights/gguf/gguf_dequantize.h"
#include "tp/internal/require.h"

namespace tp {

std::vector<float> gguf_vector(const GgufFiles& files, std::string_view name) {
  const GgufFiles::Entry* const entry = files.find(name);
  if (entry == nullptr) return {};
  const std::vector<std::size_t>& shape = entry->tensor.shape;
  if (shape.size() != 1 || !entry->tensor.type.readable) {
    throw_error<CheckpointError>(
        "{}: {} is {} of type {}, expected a vector of F32; convert the checkpoint to "
        "GGUF again",
        entry->file.name(), name, printable(shape), entry->tensor.type.name);
  }
  std::vector<float> values(shape.front());
  dequantize(entry->tensor.type, entry->file.bytes().data() + entry->tensor.bytes.begin, {0, values.size()},
             values.data());
  return values;
}

}  // namespace tp
