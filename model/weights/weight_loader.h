// Reads this rank's slices and reports progress.
#pragma once

#include "model/config/tensor_names.h"
#include "model/weights/local_weight.h"
#include "model/weights/packed_cache.h"
#include "model/weights/source/weight_source.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// Called after every tensor with the elements loaded so far on this rank.
using LoadProgress = std::function<void(std::size_t elements)>;

// One of several matrices in a tensor that has a stack of them.
struct StackPlace {
  std::size_t matrices = 0;  // 0: the tensor is a matrix
  std::size_t index = 0;
  std::string bias{};  // the tensor of all biases
};

// A stored layer (weight and perhaps bias), or the rows of it that this rank owns.
struct StoredLayer {
  std::string name;   // without ".weight", or that of a stack
  MatrixShape shape;  // of the whole weight, [out_features, in_features]
  // The config values that both follow from, for error texts.
  std::string out_reason{};
  std::string in_reason{};
  bool transposed = false;  // the weight is stored as [in_features, out_features]
  StackPlace stack{};
};

// Which rows of a stored layer a rank owns: first + r * apart for r of a range.
struct OwnedRows {
  StoredLayer layer;
  Range rows;
  std::size_t first = 0;
  std::size_t apart = 1;
};

// What has been loaded.
struct LoadedWeights {
  std::size_t elements = 0;
  std::size_t bytes = 0;            // that they take in memory
  std::size_t expert_elements = 0;  // of experts that tokens are routed to, like the next
  std::size_t expert_bytes = 0;

  LoadedWeights& operator+=(const LoadedWeights& more) {
    elements += more.elements;
    bytes += more.bytes;
    expert_elements += more.expert_elements;
    expert_bytes += more.expert_bytes;
    return *this;
  }
  LoadedWeights operator-(const LoadedWeights& less) const {
    return {elements - less.elements, bytes - less.bytes, expert_elements - less.expert_elements,
            expert_bytes - less.expert_bytes};
  }
};

class WeightLoader {
 public:
  // Either the source's weights, or nothing but their shapes: matrices have no memory then, vectors are
  // zeros, and nothing is read.
  enum class Mode : std::uint8_t { weights, shapes };

  // `tp` is this rank; what is loaded is all that differs between ranks. Without a `type` weights keep the
  // type in which they are stored; stored groups are loaded without conversion where the type allows it.
  // `leaf_heads`: the model's attention heads, if results must have the same bits on any number of ranks;
  // else 0. With a `cache`, what is loaded is read from it, or else written to it.
  WeightLoader(const WeightSource& source, TpRank tp, std::optional<WeightType> type, LoadProgress progress,
               Mode mode = Mode::weights, std::size_t leaf_heads = 0, PackedCache* cache = nullptr)
      : source_(source),
        tp_(tp),
        type_(type),
        progress_(std::move(progress)),
        mode_(mode),
        leaf_heads_(leaf_heads),
        cache_(cache) {}

  TpRank tp() const { return tp_; }
  const WeightSource& source() const { return source_; }
  bool reads() const { return mode_ == Mode::weights; }
  // Whether it gives shapes only, which do not depend on names.
  bool is_uniform() const { return !reads() && (type_ || source_.names().empty()); }

  // The leaves of a row-parallel layer's input (see PackedLayout), of a head's size or that of leaf_of; 0
  // where there are none.
  std::size_t leaf_of_heads(std::size_t head_dim) const { return leaf_heads_ == 0 ? 0 : head_dim; }
  std::size_t leaf_of_columns(std::size_t total) const { return leaf_of(total, leaf_heads_); }
  // This rank's columns of a feed-forward layer.
  Range own_columns(std::size_t total) const { return shard_columns(total, tp_, leaf_of_columns(total)); }

  // What all calls have loaded.
  const LoadedWeights& loaded() const { return loaded_; }
  // Takes account of what is like something loaded before.
  void count(const LoadedWeights& more) { loaded_ += more; }
  // What has been loaded since it was `before` are experts that tokens are routed to.
  void count_experts_since(const LoadedWeights& before) {
    loaded_.expert_elements += loaded_.elements - before.elements;
    loaded_.expert_bytes += loaded_.bytes - before.bytes;
  }
  // The largest part of a matrix by columns, as it is stored, in bytes: where ranks read together they hold
  // it beside the weights.
  std::size_t largest_columns() const { return largest_columns_; }

  // The weights' owned rows under each other: [sum of rows, in_features]. Where they are of several types, as
  // values often are of another one than queries and keys, a weight for each run of one type.
  std::vector<LocalWeight> rows_of_weights(std::span<const OwnedRows> parts);
  // The same of one weight, and of an embedding or LM head, in its vocabulary_type.
  LocalWeight rows_of_weight(const OwnedRows& part);
  LocalWeight rows_of_vocabulary(const OwnedRows& part);
  // The same rows of the biases: [sum of rows].
  std::vector<float> rows_of_biases(std::span<const OwnedRows> parts);
  // Columns of one weight: [out_features, columns.size()], perhaps in leaves.
  LocalWeight columns_of_weight(const StoredLayer& layer, Range columns, std::size_t leaf = 0);
  // A whole weight in float32, whatever the type of others: [out_features, in_features].
  Buffer<float> whole_weight(const StoredLayer& layer);
  // A whole vector of a layer's `.weight` or `.bias`: [size].
  std::vector<float> whole_vector(const std::string& name, std::size_t size, const std::string& reason);
  // Some elements of such a vector.
  std::vector<float> part_of_vector(const std::string& name, std::size_t size, Range part,
                                    const std::string& reason);

  // The stored tensors of which nothing has been loaded; on the first rank, which has a part of every tensor.
  std::vector<std::string> unread_tensors();

  // The first of a layer's owned rows whose weights differ from those of `other`, if one does.
  std::optional<std::size_t> first_different_row(const OwnedRows& part, const StoredLayer& other);

 private:
  // A matrix and the part of it that is wanted.
  struct Slice {
    std::string name;
    MatrixShape shape;
    TensorSlice part;
    bool transposed = false;  // stored with rows and columns exchanged
    // Row r of the part is row first + r * apart of the matrix.
    std::size_t first = 0;
    std::size_t apart = 1;
    bool has_more = false;  // the tensor has matrices that are read after this one

    MatrixShape stored_shape() const { return transposed ? MatrixShape{shape.columns, shape.rows} : shape; }
    // From the first to the last of the matrix's rows.
    Range rows() const {
      return part.rows.empty() ? Range{} : Range{row(part.rows.begin), row(part.rows.end - 1) + 1};
    }
    TensorSlice stored_part() const {
      return transposed ? TensorSlice{part.columns, rows()} : TensorSlice{rows(), part.columns};
    }
    std::size_t row(std::size_t index) const { return first + index * apart; }

    // Calls use(slice of the matrix, its place among `some`) for runs of rows that follow each other.
    template <class Use>
    void for_runs(Range some, const Use& use) const {
      const std::size_t length = apart == 1 ? some.size() : 1;
      for (std::size_t begin = some.begin; begin < some.end; begin += length)
        use(TensorSlice{{row(begin), row(begin) + length}, part.columns}, begin - some.begin);
    }
  };

  WeightType type_of(const Slice& slice, std::size_t leaf = 0) const;
  // Whether slices can be rows of one weight.
  bool are_held_alike(const Slice& one, const Slice& other) const;
  std::vector<std::uint8_t> scale_rows_of(std::span<const Slice> slices) const;
  kernels::ScaledFormat scaled_format(std::span<const Slice> slices, WeightType type) const;
  bool takes_groups(std::span<const Slice> slices, const kernels::PackedLayout& layout) const;
  // The part of a layer's weight; throws CheckpointError unless it is stored with the layer's shape.
  Slice slice_of(const StoredLayer& layer, const TensorSlice& part);
  Slice slice_of(const OwnedRows& part);
  Slice slice_of_bias(const OwnedRows& part);
  // A slice of the matrix, [part.rows.size(), part.columns.size()].
  void read(const Slice& slice, const TensorSlice& part, TensorView<float> out) const;
  // Announces the slices, which ranks take by rows or columns of their layers' weights.
  void fetch(std::span<const Slice> slices, Sharded sharded) const;
  LocalWeight load(std::span<const Slice> slices, Sharded sharded, WeightType type, std::size_t leaf = 0);
  // Reads slices below each other and packs them.
  void pack(std::span<const Slice> slices, Sharded sharded, LocalWeight& weight) const;
  // Whether what is loaded comes from the cache.
  bool has_cached() const { return cache_ != nullptr && cache_->reads(); }
  // Fills memory with what the cache has of these slices in this layout, or by `make`.
  void fill(std::span<const Slice> slices, const kernels::PackedLayout& layout, std::span<std::byte> memory,
            const std::function<void()>& make);
  void finish(const Slice& slice);
  void read_whole(const Slice& slice, float* out);
  std::vector<float> elements_of(const Slice& slice);

  const WeightSource& source_;
  TpRank tp_;
  std::optional<WeightType> type_;
  LoadProgress progress_;
  Mode mode_;
  std::size_t leaf_heads_;
  PackedCache* cache_;
  LoadedWeights loaded_;
  std::size_t largest_columns_ = 0;
};

}  // namespace tp
