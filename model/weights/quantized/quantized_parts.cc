#include "model/weights/quantized/quantized_parts.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <optional>

#include <fmt/format.h>

namespace tp {

QuantizedParts::Raw QuantizedParts::require(const std::string& name, std::string_view types) const {
  const std::optional<Raw> raw = plain_.find_raw(name);
  if (!raw) {
    throw_error<CheckpointError>(
        "there is no tensor {}, expected it with the other tensors of this {} weight; download "
        "the checkpoint again",
        printable(name), name_of(method_));
  }
  const std::string_view found = raw->tensor.type.name;
  const std::string padded = fmt::format(" {} ", types);
  tp::require<CheckpointError>(padded.find(fmt::format(" {} ", found)) != std::string::npos,
                               "{}: {} has the type {}, expected {} ({}); use a different quantization of "
                               "the model, or the original with --weights int4",
                               raw->file, printable(name), found, types, name_of(method_));
  return *raw;
}

const std::byte* QuantizedParts::floats(const std::string& name, std::size_t count) const {
  const Raw raw = require(name, "F32");
  tp::require<CheckpointError>(raw.tensor.bytes.size() == count * sizeof(float),
                               "{}: {} is {}, expected {} numbers; download the file again", raw.file,
                               printable(name), printable(raw.tensor.shape), count);
  return raw.data;
}

bool is_matrix(const std::vector<std::size_t>& shape) {
  return shape.size() == 2 && shape[0] > 0 && shape[1] > 0;
}

void require_shape(const QuantizedParts::Raw& raw, const std::vector<std::size_t>& expected,
                   std::string_view reason) {
  require<CheckpointError>(
      raw.tensor.shape == expected,
      "{}: {} is {}, expected {} ({}); config.json and the weights must be of the same model", raw.file,
      printable(raw.tensor.name), printable(raw.tensor.shape), printable(expected), reason);
}

void require_matrix(const QuantizedParts::Raw& raw) {
  require<CheckpointError>(is_matrix(raw.tensor.shape),
                           "{}: {} is {}, expected a matrix; download the file again", raw.file,
                           printable(raw.tensor.name), printable(raw.tensor.shape));
}

std::string layer_of(const std::string& name, std::string_view ending) {
  return name.substr(0, name.size() - ending.size());
}

}  // namespace tp
