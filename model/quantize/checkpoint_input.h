#pragma once

#include "model/config/family.h"
#include "model/config/spec.h"
#include "model/quantize/hyperparameters.h"
#include "model/quantize/model_tensors.h"
#include "model/quantize/quantize_input.h"
#include "model/weights/gguf_names.h"
#include "model/weights/source/weight_source.h"
#include "tp/engine_options.h"

#include <map>
#include <memory>
#include <span>

namespace tp {

// A Hugging Face checkpoint as input. Gives tensors the names, orders of rows and columns, and values of GGUF
// files; GgufCheckpoint reverses this.
class CheckpointInput final : public QuantizeInput {
 public:
  // Throws CheckpointError or ConfigError if the checkpoint cannot become a GGUF file.
  CheckpointInput(const std::filesystem::path& folder, const std::string& name,
                  std::span<const AdapterOptions> adapters);

  const GgufValues& values() const override { return values_; }
  const ModelFacts& facts() const override { return facts_; }
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  std::vector<std::string> notices() const override { return notices_; }
  void read(std::size_t tensor, Range rows, float* out) const override;
  void done_with(std::size_t tensor) const override;
  void check_header(const std::filesystem::path& file) const override;

 private:
  // Rows of a matrix in the checkpoint. The matrix may be part of a stack, or a vector as one row.
  struct Stored {
    std::string name;
    MatrixShape shape;  // all rows
    Range rows;
    std::size_t first_column = 0;  // a transposed matrix: its first row in the file
  };
  // The source of a tensor's values.
  struct Origin {
    std::vector<Stored> parts{};  // one part; in a stack, one part per expert or head
    GgufPlace place{};
    std::vector<std::size_t> rows{};     // checkpoint row of each row in the file; empty: same order
    std::vector<std::size_t> columns{};  // checkpoint column of each column in the file; empty: same order
    std::vector<float> values{};         // values of a tensor that is not in the checkpoint
  };
  // Multiplies rows of a tensor by the factors that the file contains in it.
  void fold_factors(const std::string& tensor, Range rows, std::size_t columns, float* out) const;

  // Numbers of all layers, in order, by metadata key.
  using Lists = std::map<std::string, std::vector<float>>;

  void add_tensor(const GgufNames& names, std::string name, MatrixShape shape, Lists& lists);
  // Adds a copy of a tensor that was added before, if it was.
  void add_copy(const std::string& copy, const std::string& tensor);
  // Adds a stack of matrices, which consist of `rows` of each `period` rows of `whole`.
  void add_stack(const std::string& tensor, const ModelTensor& whole, Range rows, std::size_t period,
                 bool is_transposed = false);
  void add_experts(const GgufPlace& place, const ModelTensor& stack, bool is_transposed);
  // Adds a stack of one matrix per expert: these columns of `whole`, transposed.
  void add_transposed_stack(const std::string& tensor, const ModelTensor& whole, Range columns);
  void add_separate_qkv(const GgufNames::SeparateQkv& separate, const ModelTensor& whole);
  void add_shares(const GgufPlace& place, const ModelTensor& whole);
  void add_split_kv_b(const std::string& tensor, const ModelTensor& whole);
  void add_describing_vectors();
  void write_vocabulary(const std::filesystem::path& folder);
  void read_part(const Origin& origin, const Stored& part, Range rows, float* out) const;

  std::string name_;
  std::vector<GgufFactor> factors_;
  ModelSpec spec_;  // as in the file, without `factors_`
  std::unique_ptr<WeightSource> source_;
  GgufValues values_;
  ModelFacts facts_;
  std::vector<Tensor> tensors_;
  std::vector<Origin> origins_;  // [tensors]
  mutable std::vector<std::string> notices_;
};

}  // namespace tp
