// A model with cache and workspace for one sequence, set up like in the runtime on this rank.
#pragma once

#include "model/config/architectures.h"
#include "model/layers/forward_in_halves.h"
#include "model/layers/model.h"
#include "parallel/exchange/collectives.h"
#include "parallel/shard/shard.h"
#include "tests/model/memory/one_group.h"
#include "tests/reference/expected_rows.h"
#include "tests/reference/matrix.h"
#include "tp/communicator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

class ModelUnderTest {
 public:
  struct Options {
    std::size_t length = 512;  // largest number of tokens in the sequence
    std::size_t chunk = 512;   // largest number of tokens in a step
    std::size_t block_size = 16;
    KvType kv_type = KvType::f32;
    std::optional<WeightType> weights{};  // default: as stored
    bool in_halves = false;               // steps are computed as two alternating half-batches
    bool kv_slices = true;                // ranks of a host keep one copy of the cache
    bool bidirectional = false;           // the request asks for bidirectional attention
    std::uint32_t adapter = 0;            // adapter of all tokens, index + 1
    std::size_t hosts = 1;                // number of imitated hosts, which get the ranks in order
  };

  ModelUnderTest(Communicator& comm, const CheckpointConfig& config, const WeightSource& source,
                 Options options)
      : ModelUnderTest(comm, make_spec(config), source, options) {}
  ModelUnderTest(Communicator& comm, ModelSpec spec, const WeightSource& source, Options options)
      : comm_(comm),
        spec_(std::move(spec)),
        options_(options),
        tp_{comm.rank(), comm.size()},
        model_(spec_, source, tp_, options.weights),
        blocks_((options.length + options.block_size - 1) / options.block_size),
        cache_(model_.kv_layouts(options.kv_type, options.block_size), one_group(spec_), blocks_ + 1,
               StateCache(model_.state_floats(), 2), shared_cache()),
        workspace_(model_.workspace_floats(limits())) {
    // The table is in descending order and never contains block 0, so ignoring it is noticed.
    for (std::size_t block = 0; block < blocks_; ++block)
      table_.push_back(static_cast<std::int32_t>(blocks_ - block));
  }

  // The tokens whose logits this rank computes.
  Range local_vocab() const { return vocab_; }
  const Workspace& workspace() const { return workspace_; }
  const Model& model() const { return model_; }
  const ModelSpec& spec() const { return spec_; }
  StepLimits limits() const {
    return {.tokens = std::min(chunk(), options_.length),
            .outputs = std::min(chunk(), options_.length),
            .kv_type = options_.kv_type,
            .block_size = options_.block_size,
            .max_blocks = blocks_,
            .overlaps = options_.in_halves};
  }

  // Appends tokens to the sequence, chunk by chunk, or recomputes the sequence if the model does. Returns
  // their logits on this rank: [tokens, local_vocab].
  std::vector<float> append(std::span<const TokenId> tokens) {
    std::vector<float> logits;
    if (spec_.recomputes) return recompute(tokens);
    for (std::size_t begin = 0; begin < tokens.size(); begin += options_.chunk)
      step(tokens.subspan(begin, std::min(options_.chunk, tokens.size() - begin)), true, logits);
    return logits;
  }

  // Appends tokens without computing logits.
  void append_silently(std::span<const TokenId> tokens) {
    std::vector<float> none;
    for (std::size_t begin = 0; begin < tokens.size(); begin += options_.chunk)
      step(tokens.subspan(begin, std::min(options_.chunk, tokens.size() - begin)), false, none);
  }

  // From now on, keeps the residual streams at these places (Model::capture) for all tokens: streams(),
  // [tokens, places * hidden_size].
  void capture(const std::vector<std::size_t>& places) {
    stream_columns_ = places.size() * spec_.hidden_size;
    model_.capture(places);
  }
  const std::vector<float>& streams() const { return streams_; }

  void restart() {
    length_ = 0;
    recomputed_.clear();
  }

  // Returns the most likely token after the last of `local_logits`, over all ranks. Collective.
  TokenId best(const std::vector<float>& local_logits) const {
    const Range vocab = local_vocab();
    std::int64_t key = INT64_MIN;
    for (std::size_t i = 0; i < vocab.size(); ++i) {
      const float logit = local_logits[local_logits.size() - vocab.size() + i];
      // Bits in the order of the numbers. For equal numbers, the lower id wins.
      const auto bits = std::bit_cast<std::int32_t>(logit);
      const std::int32_t ordered = bits >= 0 ? bits : bits ^ INT32_MAX;
      const auto id = static_cast<std::int64_t>(vocab.begin + i);
      key = std::max(key, (std::int64_t{ordered} << 32) + (INT32_MAX - id));
    }
    return static_cast<TokenId>(INT32_MAX - (max_over_ranks(comm_, key) & 0xffffffff));
  }

  // Returns the greedy continuation of a prompt. Collective.
  std::vector<TokenId> greedy(std::span<const TokenId> prompt, std::size_t count) {
    restart();
    std::vector<TokenId> chosen = {best(append(prompt))};
    while (chosen.size() < count) chosen.push_back(best(append(std::span(&chosen.back(), 1))));
    return chosen;
  }

  // Returns the logits of all ranks on the first rank, [tokens, vocab_size], and nothing on the others.
  // Collective.
  std::vector<float> whole(const std::vector<float>& local_logits) const {
    const std::size_t columns = local_vocab().size();
    const auto shards = exchange_values<Range>(comm_, std::span(&vocab_, 1));
    const TensorView<const float> local(local_logits.data(), local_logits.size() / columns, columns);
    const std::size_t all = comm_.is_root() ? shards.back().end : 0;
    std::vector<float> logits(local.rows() * all);
    gather_columns(comm_, local, shards,
                   TensorView<float>(logits.data(), comm_.is_root() ? local.rows() : 0, all));
    return logits;
  }

  // Returns the difference between all ranks' logits and the expected ones on the first rank, and 0 on the
  // others. Collective.
  double difference(const std::vector<float>& local_logits, const reference::ExpectedRows& expected) const {
    const std::vector<float> logits = whole(local_logits);
    return comm_.is_root() ? expected.difference(logits) : 0.0;
  }

  // Returns the largest difference between this rank's logits and its columns of the whole logits.
  template <class Whole>  // reference::Matrix, or a TensorView: [tokens, vocab_size]
  double difference(const std::vector<float>& local_logits, const Whole& whole) const {
    const Range vocab = local_vocab();
    double largest = 0.0;
    for (std::size_t i = 0; i < local_logits.size(); ++i) {
      const double expected = whole(i / vocab.size(), vocab.begin + i % vocab.size());
      const double difference = std::abs(local_logits[i] - expected);
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
    return largest;
  }

 private:
  // Returns the cache of this rank's host, if several of its ranks read a KV head.
  HostCache shared_cache() const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < comm_.size(); ++rank) {
      if (rank * options_.hosts / comm_.size() == comm_.rank() * options_.hosts / comm_.size())
        ranks.push_back(rank);
    }
    if (!options_.kv_slices || !can_share_cache(spec_)) return {};
    HostCache host{.slices = CacheSlices::of(spec_, {0, spec_.blocks.size()}, tp_, ranks, blocks_ + 1),
                   .max_blocks = blocks_};
    if (host.slices.layers.empty()) return {};
    const std::size_t bytes = host.region_bytes(model_.kv_layouts(options_.kv_type, options_.block_size),
                                                one_group(spec_), blocks_ + 1);
    std::string why;
    host.region = HostRegion::create(comm_, ranks, bytes, why);
    EXPECT_EQ(why, "");
    return host;
  }

  std::size_t chunk() const { return spec_.recomputes ? options_.length : options_.chunk; }

  std::vector<float> recompute(std::span<const TokenId> tokens) {
    recomputed_.insert(recomputed_.end(), tokens.begin(), tokens.end());
    length_ = 0;
    std::vector<float> logits;
    step(recomputed_, true, logits);
    const std::size_t earlier = (recomputed_.size() - tokens.size()) * local_vocab().size();
    logits.erase(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(earlier));
    return logits;
  }

  void step(std::span<const TokenId> tokens, bool with_logits, std::vector<float>& logits) {
    Batch batch;
    batch.tokens.assign(tokens.begin(), tokens.end());
    batch.spans[0].push_back({0, tokens.size(), length_, table_});
    batch.spans[0].back().bidirectional = options_.bidirectional;
    batch.states.push_back({.slot = 1, .saves = {}});
    if (options_.adapter != 0) batch.adapters.assign(tokens.size(), options_.adapter);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      batch.positions.push_back(length_ + i);
      if (with_logits) batch.output_rows.push_back(i);
    }
    streams_.resize(streams_.size() + tokens.size() * stream_columns_);
    for (std::size_t i = 0; stream_columns_ != 0 && i < tokens.size(); ++i)
      batch.captured.push_back(streams_.data() + (length_ + i) * stream_columns_);
    const std::size_t before = logits.size();
    const auto on_logits = [&](std::size_t first, TensorView<const float> rows) {
      EXPECT_EQ(before + first * rows.columns(), logits.size());
      for (std::size_t row = 0; row < rows.rows(); ++row)
        logits.insert(logits.end(), rows.row(row), rows.row(row) + rows.columns());
    };
    if (options_.in_halves)
      forward_in_halves(model_, comm_, batch, cache_, workspace_, on_logits);
    else
      model_.forward(comm_, batch, cache_, workspace_, on_logits);
    length_ += tokens.size();
  }

  Communicator& comm_;
  ModelSpec spec_;
  Options options_;
  TpRank tp_;
  Model model_;
  Range vocab_ = model_.tables().head ? model_.tables().head->tokens() : Range{};
  std::size_t blocks_;
  KvCache cache_;
  Workspace workspace_;
  std::vector<std::int32_t> table_;
  std::size_t length_ = 0;
  std::vector<TokenId> recomputed_;  // whole sequence, for models that recompute it
  std::size_t stream_columns_ = 0;
  std::vector<float> streams_;
};

}  // namespace tp::test
