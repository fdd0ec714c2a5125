// Passes of tokens over chunks of panels of integers. For packed_kernels.cc and quant_kernels.cc only:
// everything is local to the translation unit.
//
// A chunk is a few blocks of two adjacent panels. It stays in the first-level cache while groups of tokens
// pass over it. Their results wait in memory for the next chunk. So weights are read only once for any number
// of tokens, while products with earlier weights are computed.
#pragma once

#include "model/kernels/simd/matmul/byte_blocks.h"
#include "model/kernels/simd/matmul/leaf_sum.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kChunkBlocks = 4;
constexpr std::size_t kChunkTokens = 64;  // tokens whose results wait
// Tokens of a pass over one panel, and tokens of a pass over two adjacent panels. Each token has a float sum
// and an integer sum.
template <class Block>
constexpr std::size_t kTokensOfOne = kParts == 1 ? 6 : kSumRegisters / kParts / (1 + kVectorsOfSum) + 1;
template <class Block>
constexpr std::size_t kTokensOfTwo = kSumRegisters / (2 * 2 * kVectorsOfSum * kParts);
// Whether tokens use elements in place, in the panel.
template <class Block>
constexpr bool kIsInPlace = false;
template <>
constexpr bool kIsInPlace<Int8Block> = true;

// Results of some tokens for N panels.
template <std::size_t N>
struct WaitingResults {
  alignas(64) float sums[kChunkTokens][N][kPanel];

  template <std::size_t T>
  [[gnu::always_inline]] void load_to(std::size_t token, Vector (&results)[N][T]) const {
    for (std::size_t n = 0; n < N; ++n) {
      for (std::size_t t = 0; t < T; ++t) results[n][t] = load(sums[token + t][n]);
    }
  }
  template <std::size_t T>
  [[gnu::always_inline]] void store_from(const Vector (&results)[N][T], std::size_t token) {
    for (std::size_t n = 0; n < N; ++n) {
      for (std::size_t t = 0; t < T; ++t) store(results[n][t], sums[token + t][n]);
    }
  }
};

// Writes the results unchanged.
struct WholeRows {
  template <std::size_t N>
  struct Sums {
    explicit Sums(const PanelProduct& /*p*/) {}
    void begin(std::size_t /*tokens*/) {}
    struct NoEnd {
      void operator()(std::size_t /*group*/) const {}
    };
    template <std::size_t T>
    NoEnd end_of(std::size_t /*column*/, std::size_t /*token*/, Vector (&/*results*/)[N][T]) {
      return {};
    }
    void write(const PanelProduct& p, const Pass& pass, std::size_t tokens,
               const WaitingResults<N>& results) {
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t outputs = outputs_of(p, pass, n);
        for (std::size_t t = 0; t < tokens; ++t)
          __builtin_memcpy(p.y + place_of(p, pass, n, t), results.sums[t][n],
                           (outputs < kPanel ? outputs : kPanel) * sizeof(float));
      }
    }
  };
};

// Adds the results of leaves exactly. Leaves are whole groups.
struct LeafRows {
  template <std::size_t N>
  struct Sums {
    alignas(64) double sums[kChunkTokens][N][kPanel];
    std::size_t front;  // in groups
    std::size_t leaf;

    explicit Sums(const PanelProduct& p) : front(p.front / kGroup), leaf(p.leaf / kGroup) {}
    void begin(std::size_t tokens) { __builtin_memset(sums, 0, tokens * sizeof(sums[0])); }

    template <std::size_t T>
    struct EndLeaf {
      double (*sums)[N][kPanel];
      Vector (&results)[N][T];
      std::size_t leaf;
      std::size_t end;  // end of the current leaf, in groups

      [[gnu::always_inline]] void operator()(std::size_t group) {
        if (group + 1 != end) return;
        end += leaf;
        for (std::size_t n = 0; n < N; ++n) {
          for (std::size_t t = 0; t < T; ++t) {
            float elements[kPanel];
            store(results[n][t], elements);
            add_leaf(elements, kPanel, false, sums[t][n]);
            results[n][t] = {};
          }
        }
      }
    };
    // Returns the functor that ends leaves from `column` on.
    template <std::size_t T>
    EndLeaf<T> end_of(std::size_t column, std::size_t token, Vector (&results)[N][T]) {
      const std::size_t group = column / kGroup;
      const std::size_t before = group < front ? 0 : (group - front) / leaf;
      return {sums + token, results, leaf, front + (before + 1) * leaf};
    }
    // The last leaf may be incomplete.
    void write(const PanelProduct& p, const Pass& pass, std::size_t tokens,
               const WaitingResults<N>& results) {
      for (std::size_t n = 0; n < N; ++n) {
        const std::size_t outputs = outputs_of(p, pass, n);
        for (std::size_t t = 0; t < tokens; ++t) {
          add_leaf(results.sums[t][n], kPanel, false, sums[t][n]);
          __builtin_memcpy(p.sums + place_of(p, pass, n, t), sums[t][n],
                           (outputs < kPanel ? outputs : kPanel) * sizeof(double));
        }
      }
    }
  };
};

// Makes chunks of panels.
template <class Block>
struct Chunks {
  // Blocks [begin, begin + count) of a panel, unpacked to `room` if necessary.
  const Block* (*blocks)(const PanelProduct& p, const unsigned char* panel, std::size_t begin,
                         std::size_t count, Block* room);
  // The beginning of a block in a panel, and the block's bytes.
  std::size_t (*place)(const PanelProduct& p, std::size_t block);
  std::size_t block_bytes;
};

// Multiplies tokens by N panels.
template <class Block, class Rows, std::size_t N>
class ChunkPass {
 public:
  ChunkPass(const PanelProduct& product, const Chunks<Block>& chunks, const Pass& of, std::size_t tokens)
      : p_(product), chunks_(chunks), pass_(of), tokens_(tokens), sums_(product) {}

  void run() {
    __builtin_memset(results_.sums, 0, tokens_ * sizeof(results_.sums[0]));
    sums_.begin(tokens_);
    const std::size_t blocks = p_.in_features / kBlock;
    const std::size_t groups = (tokens_ + kMaxTokens - 1) / kMaxTokens;
    for (std::size_t begin = 0; begin < blocks; begin += kChunkBlocks) {
      Chunk chunk = chunk_at(begin, blocks - begin < kChunkBlocks ? blocks - begin : kChunkBlocks);
      for (std::size_t group = 0; group < groups; ++group) {
        const std::size_t first = tokens_ * group / groups;
        // Each group fetches its share of the following chunk, so that memory is always busy.
        if (!unpacking_fetches())
          chunk.fetched = {chunk.lines * group / groups, chunk.lines * (group + 1) / groups};
        multiply<kMaxTokens>(chunk, first, tokens_ * (group + 1) / groups - first);
      }
    }
    sums_.write(p_, pass_, tokens_, results_);
  }

 private:
  static constexpr std::size_t kMaxTokens = N == 1 ? kTokensOfOne<Block> : kTokensOfTwo<Block>;

  struct Chunk {
    std::size_t begin;  // blocks
    std::size_t count;
    const Block* blocks[N];
    const unsigned char* packed[N];
    std::size_t lines;  // cache lines of a packed block
    struct {
      std::size_t begin;
      std::size_t end;
    } fetched;  // range of these lines to fetch while the next tokens pass
  };

  Chunk chunk_at(std::size_t begin, std::size_t count) {
    Chunk chunk{begin, count, {}, {}, (chunks_.block_bytes + kVectorBytes - 1) / kVectorBytes, {}};
    for (std::size_t n = 0; n < N; ++n) {
      const unsigned char* panel = weights_of(p_, pass_, n);
      chunk.packed[n] = panel + chunks_.place(p_, begin);
      if (unpacking_fetches()) {
        for (std::size_t i = 0; i < count; ++i) {
          fetch_lines(chunk.packed[n] + i * chunks_.block_bytes, chunk.lines);
          chunks_.blocks(p_, panel, begin + i, 1, room_[n] + i);
        }
        chunk.blocks[n] = room_[n];
      } else {
        chunk.blocks[n] = chunks_.blocks(p_, panel, begin, count, room_[n]);
      }
    }
    return chunk;
  }

  // Unpacking takes longer than a single group of tokens, so memory should be busy during it.
  bool unpacking_fetches() const { return Block::kIsUnpacked && tokens_ <= kMaxTokens; }

  // Multiplies `tokens` <= T tokens from `first` on.
  template <std::size_t T>
  void multiply(const Chunk& chunk, std::size_t first, std::size_t tokens) {
    if (tokens == T) {
      multiply_some<T>(chunk, first);
    } else if constexpr (T > 1) {
      multiply<T - 1>(chunk, first, tokens);
    }
  }

  template <std::size_t T>
  [[gnu::noinline]] void multiply_some(const Chunk& chunk, std::size_t first) {
    Vector results[N][T];
    results_.load_to(first, results);
    auto end_group = sums_.template end_of<T>(chunk.begin * kBlock, first, results);
    for (std::size_t i = 0; i < chunk.count; ++i) {
      const Block* blocks[N];
      for (std::size_t n = 0; n < N; ++n) {
        blocks[n] = chunk.blocks[n] + i;
        fetch<T>(chunk.packed[n] + i * chunks_.block_bytes + chunk.fetched.begin * kVectorBytes,
                 chunk.fetched.end - chunk.fetched.begin);
      }
      multiply_blocks(p_, blocks, pass_.token + first, (chunk.begin + i) * kBlock, results, end_group);
    }
    results_.store_from(results, first);
  }

  template <std::size_t T>
  [[gnu::always_inline]] void fetch(const unsigned char* packed, std::size_t lines) const {
    // Unpacking a chunk reads all of it at once, from the first-level cache.
    if (!kFetchesFar<T> || !kIsInPlace<Block>) return fetch_lines(packed, lines);
    fetch_far_lines(packed, lines);
    // A single group of tokens has no time for a second instruction per line.
    if (tokens_ > kMaxTokens) fetch_near_lines(packed, lines);
  }

  const PanelProduct& p_;
  Chunks<Block> chunks_;
  Pass pass_;
  std::size_t tokens_;
  WaitingResults<N> results_;
  typename Rows::template Sums<N> sums_;
  alignas(64) Block room_[N][kChunkBlocks];
};

template <class Rows, class Block>
void run_chunks(const PanelProduct& p, const Chunks<Block>& chunks) {
  for (std::size_t token = 0; token < p.tokens; token += kChunkTokens) {
    const std::size_t tokens = p.tokens - token < kChunkTokens ? p.tokens - token : kChunkTokens;
    // Two panels at a time if their sums fit in registers.
    const bool fit = kTokensOfTwo<Block> >= (tokens < kTokensOfOne<Block> ? tokens : kTokensOfOne<Block>);
    const std::size_t apart = fit ? p.count / 2 : 0;
    if constexpr (kTokensOfTwo < Block >> 0) {
      for (std::size_t i = 0; i < apart; ++i)
        ChunkPass<Block, Rows, 2>(p, chunks, {i, apart, token}, tokens).run();
    }
    for (std::size_t i = 2 * apart; i < p.count; ++i)
      ChunkPass<Block, Rows, 1>(p, chunks, {i, 0, token}, tokens).run();
  }
}

template <class Block>
void multiply_chunks(const PanelProduct& p, const Chunks<Block>& chunks) {
  if (p.sums == nullptr) return run_chunks<WholeRows>(p, chunks);
  run_chunks<LeafRows>(p, chunks);
}

}  // namespace
}  // namespace tp::kernels
