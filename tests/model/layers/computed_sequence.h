// Logits and hidden states of a sequence, also for layers that read states.
#pragma once

#include "model/layers/model.h"
#include "tests/model/memory/one_group.h"
#include "tp/communicator.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

namespace tp::test {

// Outputs of a decoder for one sequence on this rank.
struct Results {
  std::vector<float> logits;               // [tokens, local_vocab]
  std::vector<std::vector<float>> hidden;  // [tokens][hidden_size]
};

// Computes the sequence in steps of `chunk` tokens. `states`: one per token, for decoders that read states.
// Collective.
inline Results compute(Communicator& comm, const ModelSpec& spec, const WeightSource& source,
                       const std::vector<TokenId>& tokens, std::size_t chunk,
                       const std::vector<const float*>& states = {}) {
  constexpr std::size_t kBlockSize = 8;
  constexpr std::size_t kBlocks = 16;
  const Model decoder(spec, source, {comm.rank(), comm.size()}, std::nullopt);
  const KvCache cache(decoder.kv_layouts(KvType::f32, kBlockSize), one_group(spec), kBlocks,
                      StateCache(decoder.state_floats(), 1));
  Workspace workspace(decoder.workspace_floats({.tokens = chunk,
                                                .outputs = chunk,
                                                .kv_type = KvType::f32,
                                                .block_size = kBlockSize,
                                                .max_blocks = kBlocks}));
  std::vector<std::int32_t> table(kBlocks);
  std::iota(table.begin(), table.end(), 0);
  Results results;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const std::size_t end = std::min(tokens.size(), begin + chunk);
    Batch batch;
    batch.spans[0].push_back({0, end - begin, begin, table});
    batch.states.push_back({.slot = 0, .saves = {}});
    for (std::size_t i = begin; i < end; ++i) {
      batch.tokens.push_back(tokens[i]);
      batch.positions.push_back(i);
      batch.output_rows.push_back(i - begin);
      batch.hidden_rows.push_back(i - begin);
      if (!states.empty()) batch.states_before.push_back(states[i]);
    }
    decoder.forward(
        comm, batch, cache, workspace,
        [&](std::size_t, TensorView<const float> rows) {
          results.logits.insert(results.logits.end(), rows.data(), rows.data() + rows.size());
        },
        [&](std::size_t, TensorView<const float> rows) {
          for (std::size_t row = 0; row < rows.rows(); ++row)
            results.hidden.emplace_back(rows.row(row), rows.row(row) + rows.columns());
        });
  }
  return results;
}

}  // namespace tp::test
