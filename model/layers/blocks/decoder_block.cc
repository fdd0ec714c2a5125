#include "model/layers/blocks/decoder_block.h"

namespace tp {
namespace {

// No layer has so many heads.
constexpr std::size_t kMixerPart = std::size_t{1} << 19;
constexpr std::size_t kHashTablePart = std::size_t{1} << 20;

template <class Block>
const HashTable* hash_table_of(const Block& block) {
  if constexpr (requires { block.hash_table(); }) return block.hash_table();
  return nullptr;
}

// The mixer's state follows that of attention, which has one if random features approximate it.
void add_parts_of(const Mamba& mixer, const AttentionPart& attention, std::vector<StatePart>& parts) {
  const std::size_t first = parts.empty() ? 0 : kMixerPart;
  for (StatePart part : mixer.state_parts()) {
    part.index += first;
    for (StatePart::Rows& rows : part.rows) rows.begin += attention.state_floats();
    parts.push_back(std::move(part));
  }
}

}  // namespace

DecoderBlock load_block(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names) {
  if (spec.altup) return AltUpBlock(loader, spec, hidden_size, names);
  if (spec.hyper_connection) return ConnectedBlock<HyperConnection>(loader, spec, hidden_size, names);
  if (spec.low_rank_connection) return ConnectedBlock<LowRankConnection>(loader, spec, hidden_size, names);
  if (spec.depth_attention) return ConnectedBlock<DepthAttention>(loader, spec, hidden_size, names);
  switch (spec.wiring) {
    case BlockSpec::Wiring::parallel:
      return ParallelResidualBlock(loader, spec, hidden_size, names);
    case BlockSpec::Wiring::post_norm:
      return PostNormBlock(loader, spec, hidden_size, names);
    case BlockSpec::Wiring::reversible:
      return ReversibleBlock(loader, spec, hidden_size, names);
    default:
      return SequentialBlock(loader, spec, hidden_size, names);
  }
}

std::size_t state_floats_of(const DecoderBlock& block) {
  return std::visit(
      [](const auto& any) {
        std::size_t floats = any.attention().state_floats();
        if constexpr (requires { any.parallel_mixer(); }) {
          if (any.parallel_mixer() != nullptr) floats += any.parallel_mixer()->state_floats();
        }
        if constexpr (requires { any.feed_forward(); }) floats += any.feed_forward().state_floats();
        if (const HashTable* const table = hash_table_of(any)) floats += table->state_floats();
        return floats;
      },
      block);
}

// The state of a token shift in the feed-forward half joins part 0, which every rank has, like that of the
// token shift before. Every rank also has the state of a hash table, a part of its own that follows those of
// all heads.
std::vector<StatePart> state_parts_of(const DecoderBlock& block) {
  return std::visit(
      [](const auto& any) {
        std::vector<StatePart> parts = any.attention().state_parts();
        if constexpr (requires { any.parallel_mixer(); }) {
          if (any.parallel_mixer() != nullptr) add_parts_of(*any.parallel_mixer(), any.attention(), parts);
        }
        if constexpr (requires { any.feed_forward(); }) {
          for (StatePart::Rows rows : any.feed_forward().state_rows()) {
            rows.begin += any.attention().state_floats();
            parts.front().rows.push_back(rows);
          }
        }
        if (const HashTable* const table = hash_table_of(any)) {
          StatePart part{kHashTablePart, table->state_rows()};
          for (StatePart::Rows& rows : part.rows) rows.begin += any.attention().state_floats();
          parts.push_back(std::move(part));
        }
        return parts;
      },
      block);
}

const HashTable* hash_table_of(const DecoderBlock& block) {
  return std::visit([](const auto& any) { return hash_table_of(any); }, block);
}

void announce_rows(const DecoderBlock& block, const StepContext& step) {
  std::visit(
      [&](const auto& any) {
        if constexpr (requires { any.announce_rows(step); }) {
          if (any.hash_table() != nullptr) any.announce_rows(step);
        }
      },
      block);
}

const CrossAttention* cross_attention_of(const DecoderBlock& block) {
  return std::visit(
      [](const auto& any) -> const CrossAttention* {
        if constexpr (requires { any.cross_attention(); }) {
          return any.cross_attention();
        } else {
          return nullptr;
        }
      },
      block);
}

}  // namespace tp
