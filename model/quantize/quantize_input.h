// A model to convert to a GGUF file.
#pragma once

#include "model/quantize/type_choice.h"
#include "model/weights/gguf/gguf_values.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

class QuantizeInput {
 public:
  struct Tensor {
    std::string name;                  // name in the GGUF file
    std::vector<std::size_t> shape{};  // the innermost dimension last
    std::optional<GgufType> stored{};  // set if the tensor is already stored in a type of GGUF
    std::size_t columns() const { return shape.back(); }
  };

  virtual ~QuantizeInput() = default;

  // The metadata, without the types of tensors.
  virtual const GgufValues& values() const = 0;
  virtual const ModelFacts& facts() const = 0;
  // The tensors in the order of the file.
  virtual const std::vector<Tensor>& tensors() const = 0;
  // Facts about the result that the user should know.
  virtual std::vector<std::string> notices() const { return {}; }

  // Reads rows of a tensor, [rows.size(), columns]; rows are counted through all dimensions except the last.
  // Several threads may read at once. Throws CheckpointError.
  virtual void read(std::size_t tensor, Range rows, float* out) const = 0;
  // The bytes of a tensor with a `stored` type.
  virtual std::span<const std::byte> stored_bytes(std::size_t /*tensor*/) const { return {}; }
  // Hints that a tensor is no longer needed.
  virtual void done_with(std::size_t tensor) const = 0;

  // Throws ConfigError if the header in `file` does not describe this model.
  virtual void check_header(const std::filesystem::path& /*file*/) const {}
};

}  // namespace tp
