#include "model/weights/gguf/gguf_integers.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <cstddef>
#include <cstring>

namespace tp {
namespace {

template <class Integer>
std::vector<std::int64_t> read_all(const std::byte* from, std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    Integer number = 0;
    std::memcpy(&number, from + i * sizeof number, sizeof number);
    numbers[i] = number;
  }
  return numbers;
}

}  // namespace

std::vector<std::int64_t> gguf_integers(const GgufFiles::Entry& entry, MatrixShape shape,
                                        const std::string& reason) {
  const GgufTensor& tensor = entry.tensor;
  const bool is_long = tensor.type.name == "I64";
  std::vector<std::size_t> expected = {shape.columns};
  if (shape.rows != 1) expected.insert(expected.begin(), shape.rows);
  require<CheckpointError>(
      (is_long || tensor.type.name == "I32") && tensor.shape == expected,
      "{}: {} is {} of the type {}, expected {} ({}) of the type I32 or I64; convert the model again",
      entry.file.name(), printable(tensor.name), printable(tensor.shape), tensor.type.name,
      printable(expected), reason);
  const std::byte* const first = entry.file.bytes().data() + tensor.bytes.begin;
  return is_long ? read_all<std::int64_t>(first, shape.size()) : read_all<std::int32_t>(first, shape.size());
}

}  // namespace tp
