// The place of a projection in a checkpoint: a separate tensor, or rows of a larger tensor.
#pragma once

#include "model/config/spec.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <vector>

namespace tp {

// Row r of the projection is row first + r / piece * stride + r % piece of the stored layer. If `piece` is 1,
// any range of rows is one OwnedRows.
struct StoredProjection {
  StoredLayer layer;
  std::size_t first = 0;
  std::size_t piece = 0;   // contiguous rows
  std::size_t stride = 0;  // from the beginning of a piece to the next

  // Appends to `parts` the stored rows that contain `rows` of the projection, in order.
  void append_rows(Range rows, std::vector<OwnedRows>& parts) const;
};

struct StoredQkv {
  StoredProjection query;  // [num_attention_heads * head_dim, hidden_size]
  StoredProjection key;    // [num_key_value_heads * head_dim, hidden_size]
  StoredProjection value;  // [num_key_value_heads * head_dim, hidden_size]
  // Like `query`: its own layer, or stored after each query head. Empty without gates.
  StoredProjection gate{};
};
StoredQkv stored_qkv(const BlockNames& names, const AttentionSpec& spec, std::size_t hidden_size);

struct StoredGateUp {
  StoredProjection gate;  // [intermediate_size, hidden_size]
  StoredProjection up;    // [intermediate_size, hidden_size]
};
StoredGateUp stored_gate_up(const WeightSource& source, const BlockNames& names,
                            std::size_t intermediate_size, std::size_t hidden_size);

// The projections of one expert.
struct StoredExpert {
  StoredProjection gate;  // [intermediate_size, hidden_size]
  StoredProjection up;    // [intermediate_size, hidden_size]
  StoredLayer down;       // [hidden_size, intermediate_size]
};
// An expert with tensors of its own. An expert without a gate does not use `gate`.
StoredExpert stored_expert(const WeightSource& source, const GatedMlpNames& names,
                           std::size_t intermediate_size, std::size_t hidden_size);

// The experts of a block, in separate tensors or in stacks.
class ExpertStacks {
 public:
  ExpertStacks(const WeightSource& source, const ExpertNames& names, std::size_t num_experts);

  StoredExpert expert(std::size_t index, std::size_t intermediate_size, std::size_t hidden_size) const;

 private:
  const WeightSource& source_;
  ExpertNames names_;
  std::size_t num_experts_;
  bool are_stacks_ = false;
  bool are_quantized_ = false;
};

}  // namespace tp
