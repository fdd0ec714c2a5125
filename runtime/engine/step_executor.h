// What every rank does with a forward pass.
#pragma once

#include "model/layers/decoder.h"
#include "runtime/engine/command.h"
#include "runtime/engine/outputs.h"
#include "runtime/engine/rank_sequences.h"
#include "runtime/engine/sharded_choice.h"
#include "tp/communicator.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace tp {

// Gives the tokens that may be chosen for a masked output, which may take a while. Does not throw: an empty
// mask allows none.
using MaskSource = std::function<TokenMask(std::size_t output)>;

// Runs the model, and brings to rank 0 what is wanted of its outputs.
class StepExecutor {
 public:
  StepExecutor(Communicator& comm, const Decoder& decoder, const KvCache& cache, Workspace& workspace,
               std::size_t vocab_size);

  // Collective: every rank runs the same pass. The results are rank 0's, and so is `masks`, which is asked
  // only when the model has been run.
  std::vector<Result> run(const Forward& forward, const MaskSource& masks);

  // Seconds of choosing and of bringing results to rank 0, what other ranks are waited for included.
  double collecting_seconds() const { return collecting_seconds_; }

 private:
  // One row of an output.
  struct Row {
    const Output* output = nullptr;
    std::size_t index = 0;   // of the output
    std::size_t offset = 0;  // within the output's rows
  };

  void collect(std::span<const Row> rows, TensorView<const float> local_logits, const MaskSource& masks);
  void collect_parts(std::span<const Row> rows, TensorView<const float> local_logits);
  void collect_whole(const Row& row, TensorView<const float> local_row);
  void append_row(std::size_t output, std::span<const float> row);
  std::vector<ChoiceRow> choice_rows(std::span<const Row> rows, TensorView<const float> local_logits);
  void receive_masks(std::span<const Row> rows, const MaskSource& masks);

  Communicator& comm_;
  const Decoder& decoder_;
  const KvCache& cache_;
  Workspace& workspace_;
  std::vector<Range> vocab_shards_;  // [ranks]
  std::size_t largest_shard_;
  RankSequences sequences_;
  ShardedChoice choice_;
  std::vector<Result> results_;             // of the pass at hand
  std::map<std::size_t, TokenMask> masks_;  // of its outputs
  double collecting_seconds_ = 0.0;
};

}  // namespace tp
