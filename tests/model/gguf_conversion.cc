#include "tests/model/gguf_conversion.h"

#include <algorithm>

namespace tp::test {

TensorValues every(const TensorValues& values, std::size_t first, std::size_t apart) {
  TensorValues some{values.shape, {}};
  some.shape.back() /= apart;
  for (std::size_t i = first; i < values.elements.size(); i += apart)
    some.elements.push_back(values.elements[i]);
  return some;
}

TensorValues transposed(const TensorValues& values) {
  const std::size_t rows = values.shape[1];
  const std::size_t columns = values.shape[2];
  TensorValues out{{values.shape[0], columns, rows}, std::vector<float>(values.elements.size())};
  for (std::size_t i = 0; i < out.elements.size(); ++i) {
    const std::size_t matrix = i / (rows * columns) * rows * columns;
    out.elements[i] = values.elements[matrix + i % rows * columns + (i - matrix) / rows];
  }
  return out;
}

TensorValues permuted(TensorValues values, std::size_t head_dim) {
  const std::size_t columns = values.shape.back();
  TensorValues out = values;
  for (std::size_t row = 0; row < values.shape.front(); ++row) {
    const std::size_t in_head = row % head_dim;
    const std::size_t from = row - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
    std::copy_n(values.elements.data() + from * columns, columns, out.elements.data() + row * columns);
  }
  return out;
}

TensorValues rows_of(const TensorValues& stack, std::size_t begin, std::size_t count) {
  TensorValues out{{stack.shape[0], count, stack.shape[2]}, {}};
  for (std::size_t matrix = 0; matrix < stack.shape[0]; ++matrix) {
    const auto first = stack.elements.begin() +
                       static_cast<std::ptrdiff_t>((matrix * stack.shape[1] + begin) * stack.shape[2]);
    out.elements.insert(out.elements.end(), first,
                        first + static_cast<std::ptrdiff_t>(count * stack.shape[2]));
  }
  return out;
}

}  // namespace tp::test
