#include "model/layers/attention/chosen_blocks.h"

#include <algorithm>
#include <cmath>

namespace tp {

ShortSequence sequence_of(std::span<const std::int32_t> chosen, std::size_t chosen_size, std::size_t position,
                          std::span<const std::int32_t> table, std::size_t block_size) {
  ShortSequence sequence;
  const bool is_aligned = chosen_size % block_size == 0;
  std::size_t next = 0;  // the first block of the cache that is not part of the sequence yet
  std::size_t last = 0;  // the last chosen position
  for (const std::int32_t number : chosen) {
    const std::size_t begin = static_cast<std::size_t>(number) * chosen_size;
    const std::size_t end = std::min(begin + chosen_size, position + 1);
    last = end - 1;
    for (std::size_t block = begin / block_size; block * block_size < end; ++block) {
      if (block >= next) {
        sequence.table.push_back(table[block]);
        next = block + 1;
        if (!is_aligned) sequence.bias.resize(sequence.table.size() * block_size, -INFINITY);
      }
      if (is_aligned) continue;
      const std::size_t first = std::max(begin, block * block_size) % block_size;
      const std::size_t behind = std::min(end, (block + 1) * block_size) - block * block_size;
      std::fill(sequence.bias.end() - static_cast<std::ptrdiff_t>(block_size - first),
                sequence.bias.end() - static_cast<std::ptrdiff_t>(block_size - behind), 0.0F);
    }
  }
  sequence.places = (sequence.table.size() - 1) * block_size + last % block_size + 1;
  return sequence;
}

void attend_to_sequences(kernels::AttentionArgs args, std::span<const ShortSequence> sequences,
                         std::size_t first_row) {
  std::vector<kernels::AttentionSpan> spans;
  for (const ShortSequence& sequence : sequences) {
    spans.push_back({.first_token = first_row + spans.size(),
                     .tokens = 1,
                     .start_position = sequence.places - 1,
                     .block_table = sequence.table,
                     .key_bias = sequence.bias.empty() ? nullptr : sequence.bias.data()});
  }
  // With a bias, the window hides all places but the last one, and the bias shows the chosen places.
  args.pattern = {};
  if (!sequences.front().bias.empty()) args.pattern.window = 1;
  args.spans = spans;
  kernels::paged_attention(args);
}

}  // namespace tp
