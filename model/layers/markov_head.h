#pragma once

#include "model/config/spec.h"
#include "model/layers/embedding.h"
#include "model/memory/workspace.h"
#include "model/weights/weight_loader.h"
#include "tp/communicator.h"
#include "tp/tensor.h"
#include "tp/token_id.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// The second step of a DSpark drafter. The logits of a block's row depend on the token before the row, which
// the row before has drafted: logits += output . input[token]. Both tables are divided by tokens.
class MarkovHead {
 public:
  // Throws CheckpointError.
  MarkovHead(WeightLoader& loader, const DrafterNames& names, std::size_t vocab_size, std::size_t hidden_size,
             const MarkovSpec& spec);

  // Corrects this rank's logits of a row, [1, local_vocab]. Returns the row's confidence, if the drafter has
  // a confidence head: the logit of the probability that the target accepts the row's token. `state`:
  // [hidden_size], the row's state after the final norm. Collective; throws CommError.
  std::optional<float> correct(Communicator& comm, TokenId previous, std::span<const float> state,
                               TensorView<float> local_logits, Workspace& workspace) const;
  // The size of correct()'s workspace.
  std::size_t workspace_floats() const;

 private:
  VocabShard input_;   // [local_vocab, rank]
  VocabShard output_;  // [local_vocab, rank]
  bool confidence_reads_token_;
  std::vector<float> confidence_;       // [hidden_size (+ rank)], or empty
  std::vector<float> confidence_bias_;  // [1], or empty
};

}  // namespace tp
