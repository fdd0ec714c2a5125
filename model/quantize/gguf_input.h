#pragma once

#include "model/quantize/quantize_input.h"
#include "model/weights/gguf/gguf_files.h"

namespace tp {

// A GGUF model in one or more parts. Metadata and names do not change.
class GgufInput final : public QuantizeInput {
 public:
  // `first`: as returned by find_gguf. Throws CheckpointError.
  explicit GgufInput(const std::filesystem::path& first);

  const GgufValues& values() const override { return values_; }
  const ModelFacts& facts() const override { return facts_; }
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  std::vector<std::string> notices() const override;
  void read(std::size_t tensor, Range rows, float* out) const override;
  std::span<const std::byte> stored_bytes(std::size_t tensor) const override;
  void done_with(std::size_t tensor) const override;

 private:
  GgufFiles files_;
  GgufValues values_;
  ModelFacts facts_;
  std::vector<Tensor> tensors_;
  std::vector<const GgufFiles::Entry*> entries_;  // [tensors]
};

}  // namespace tp
