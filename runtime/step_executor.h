// What every rank does with a step.
#pragma once

#include "model/decoder.h"
#include "runtime/candidates.h"
#include "runtime/step.h"
#include "tp/communicator.h"

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

// Where rank 0 puts what it receives of a step's outputs.
struct OutputSink {
  // The best tokens of output `index` from all ranks, or its target.
  std::function<void(std::size_t index, Candidates candidates)> on_candidates;
  // The whole row of output `index`, [vocab_size]; valid during the call.
  std::function<void(std::size_t index, std::span<const float> logits)> on_row;
};

// Holds a rank's view of the sequences (their block tables), runs the model, and brings to rank 0 what
// sampling needs.
class StepExecutor {
 public:
  StepExecutor(Communicator& comm, const Decoder& decoder, const KvCache& cache, Workspace& workspace,
               std::size_t vocab_size);

  // Collective: every rank runs the same step. `sink` is used on rank 0 only.
  void run(const Step& step, const OutputSink& sink);

 private:
  Batch make_batch(const Step& step);
  void collect(std::span<const OutputRow> outputs, std::size_t first_output,
               TensorView<const float> local_logits, const OutputSink& sink);
  void collect_candidates(std::span<const OutputRow> outputs, std::size_t first_output,
                          TensorView<const float> local_logits, const OutputSink& sink);
  void collect_row(std::size_t output, TensorView<const float> local_row, const OutputSink& sink);

  Communicator& comm_;
  const Decoder& decoder_;
  const KvCache& cache_;
  Workspace& workspace_;
  std::size_t vocab_size_;
  std::vector<Range> vocab_shards_;  // [ranks]
  std::vector<float> whole_row_;     // [vocab_size] on rank 0, once needed
  std::unordered_map<SequenceId, std::vector<BlockId>> block_tables_;
};

}  // namespace tp
