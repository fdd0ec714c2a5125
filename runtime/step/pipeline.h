// Messages between the stages of a pipeline: commands from rank 0 to all ranks, activations from stage to
// stage, masks to the last stage, and results to rank 0.
#pragma once

#include "model/layers/model.h"
#include "parallel/exchange/mailbox.h"
#include "parallel/exchange/topology.h"
#include "parallel/shard/stage.h"
#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "tp/communicator.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <vector>

namespace tp {

// Rank 0 is the first rank of the first stage. The first rank of the last stage collects results. All ranks
// execute rank 0's commands in order. A stage can work on one step while an earlier stage works on the next.
// All members throw CommError.
class Pipeline {
 public:
  // Collective over `world`, which must outlive this object. Throws ConfigError on all ranks if the ranks
  // cannot be divided into this many stages.
  Pipeline(Communicator& world, std::size_t stages);

  Stage stage() const { return stage_; }
  // The ranks of this stage; all ranks if there is only one stage.
  Communicator& tensor() { return topology_.tensor(); }
  bool collects_results() { return stage_.is_last() && tensor().is_root(); }

  // A decoder's links to the neighbouring stages; empty if there is only one stage.
  Model::StageLinks links();

  // For several stages only: rank 0 sends, and the other ranks receive.
  void send_command(const Command& command);
  Command receive_command();
  // Rank 0 sends masks to the first rank of the last stage, in the order of the outputs.
  void send_mask(const TokenMask& mask);
  TokenMask receive_mask(std::size_t vocab_size);
  // The first rank of the last stage sends results to rank 0.
  void send_results(const std::vector<Result>& results);
  std::vector<Result> receive_results();

 private:
  void send_rows(TensorView<const float> x);
  void receive_rows(TensorView<float> x);
  // The rank in the given stage that has the same tensor-parallel share as this rank.
  std::size_t counterpart(std::size_t stage) const;
  std::size_t collector() const;

  Communicator& world_;
  Topology topology_;
  Stage stage_;
  Mailbox mailbox_;
};

}  // namespace tp
