// Loads this rank's slices of weights and reports progress.
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
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tp {

struct AdapterMatrix;

// Called after each tensor with the number of elements loaded so far on this rank.
using LoadProgress = std::function<void(std::size_t elements)>;

// The place of a matrix in a stack of matrices.
struct StackPlace {
  std::size_t matrices = 0;  // 0: the tensor is a matrix
  std::size_t index = 0;
  std::string bias{};  // tensor of all biases
  // The layer that files without stacks have instead of rows of the matrix: adapters use its name. Its first
  // row is row `first` of the matrix. Empty: there are no such files.
  std::string layer{};
  std::size_t layer_rows = 0;
  std::size_t first = 0;
};

// A stored layer: a weight and possibly a bias.
struct StoredLayer {
  std::string name;   // without ".weight"; or the name of a stack
  MatrixShape shape;  // [out_features, in_features] of the whole weight
  // The config values that determine out_features and in_features, for errors.
  std::string out_reason{};
  std::string in_reason{};
  bool transposed = false;  // the weight is stored as [in_features, out_features]
  StackPlace stack{};
  bool is_tensor = false;  // `name` is the whole name of a tensor
};

// Rows of a stored layer that a rank owns: first + r * apart for each r in `rows`.
struct OwnedRows {
  StoredLayer layer;
  Range rows;
  std::size_t first = 0;
  std::size_t apart = 1;
};

// Amounts of loaded weights.
struct LoadedWeights {
  std::size_t elements = 0;
  std::size_t bytes = 0;            // bytes in memory
  std::size_t expert_elements = 0;  // elements of routed experts
  std::size_t expert_bytes = 0;
  std::size_t adapter_bytes = 0;  // bytes of adapters, not part of `bytes`
  std::size_t mapped_bytes = 0;   // bytes of MappedRows, which are neither in memory nor among the elements

  LoadedWeights& operator+=(const LoadedWeights& more) {
    elements += more.elements;
    bytes += more.bytes;
    expert_elements += more.expert_elements;
    expert_bytes += more.expert_bytes;
    adapter_bytes += more.adapter_bytes;
    mapped_bytes += more.mapped_bytes;
    return *this;
  }
  LoadedWeights operator-(const LoadedWeights& less) const {
    return {elements - less.elements,
            bytes - less.bytes,
            expert_elements - less.expert_elements,
            expert_bytes - less.expert_bytes,
            adapter_bytes - less.adapter_bytes,
            mapped_bytes - less.mapped_bytes};
  }
};

class WeightLoader {
 public:
  // Whether to load weights, or only their shapes. With `shapes`, nothing is read, matrices have no memory,
  // and vectors are zeros.
  enum class Mode : std::uint8_t { weights, shapes };

  // `tp`: this rank, on which the loaded slices depend. Without a `type`, weights keep their stored type.
  // Stored groups are loaded without conversion if the type allows it. `leaf_heads`: the model's attention
  // heads if results must have the same bits on any number of ranks; else 0. If `cache` can be read,
  // everything is loaded from it; otherwise everything loaded is written to it.
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
  // Whether it loads only shapes, and these do not depend on names.
  bool is_uniform() const { return !reads() && (type_ || source_.names().empty()) && adapters() == nullptr; }
  // Whether results must have the same bits on any number of ranks.
  bool has_same_bits() const { return leaf_heads_ != 0; }

  // The adapters beside the weights; null: none. Layers load their own factors, and report them by use() and
  // count_adapter().
  const Adapters* adapters() const { return source_.adapters(); }
  void use(const AdapterMatrix& matrix) { used_.insert(&matrix); }
  const std::set<const AdapterMatrix*>& used() const { return used_; }
  void count_adapter(std::size_t bytes) { loaded_.adapter_bytes += bytes; }
  // The type in memory of an adapter's matrix that is stored in a type like `stored`.
  WeightType adapter_type(WeightType stored) const { return type_ == WeightType::f32 ? *type_ : stored; }

  // Leaf size of a row-parallel layer's input (see PackedLayout): the size of a head, or leaf_of. 0 without
  // leaves.
  std::size_t leaf_of_heads(std::size_t head_dim) const { return leaf_heads_ == 0 ? 0 : head_dim; }
  std::size_t leaf_of_columns(std::size_t total) const { return leaf_of(total, leaf_heads_); }
  // This rank's columns of a feed-forward layer.
  Range own_columns(std::size_t total) const { return shard_columns(total, tp_, leaf_of_columns(total)); }

  // Everything loaded so far.
  const LoadedWeights& loaded() const { return loaded_; }
  // Counts weights that equal others loaded before.
  void count(const LoadedWeights& more) { loaded_ += more; }
  // Counts everything loaded since `before` as routed experts.
  void count_experts_since(const LoadedWeights& before) {
    loaded_.expert_elements += loaded_.elements - before.elements;
    loaded_.expert_bytes += loaded_.bytes - before.bytes;
  }
  // Bytes of the largest part of a matrix by columns, as stored. If ranks read together, they hold it in
  // addition to the weights.
  std::size_t largest_columns() const { return largest_columns_; }

  // The owned rows of several weights, stacked vertically: [sum of rows, in_features]. Returns a weight for
  // each run of rows of the same type; values often have a different type than queries and keys.
  // `of_vocabulary`: in the vocabulary_type of their type.
  std::vector<LocalWeight> rows_of_weights(std::span<const OwnedRows> parts, bool of_vocabulary = false);
  // Rows of one weight, and rows of an embedding or LM head in its vocabulary_type.
  LocalWeight rows_of_weight(const OwnedRows& part);
  LocalWeight rows_of_vocabulary(const OwnedRows& part);
  // The owned rows of the biases: [sum of rows].
  std::vector<float> rows_of_biases(std::span<const OwnedRows> parts);
  // All rows of these weights, one for each, which stay in the files. Empty if a weight must be loaded,
  // because its values would change in the type of the weights, or because the source cannot map it.
  std::vector<MappedRows> mapped_rows(std::span<const StoredLayer> layers);
  // Columns of one weight: [out_features, columns.size()], in leaves unless `leaf` is 0.
  LocalWeight columns_of_weight(const StoredLayer& layer, Range columns, std::size_t leaf = 0);
  // A whole weight in float32, even if other weights have another type: [out_features, in_features].
  Buffer<float> whole_weight(const StoredLayer& layer);
  // A whole matrix in float32 that is a tensor, not a layer: the layer's name is the tensor's whole name.
  Buffer<float> whole_tensor(const StoredLayer& layer);
  // Rows of a matrix in float32, [rows.size(), columns]. The matrix is a tensor, not a layer: the layer's
  // name is the tensor's whole name.
  std::vector<float> rows_of_tensor(const StoredLayer& layer, Range rows);
  // A whole vector, which is a layer's `.weight` or `.bias`: [size].
  std::vector<float> whole_vector(const std::string& name, std::size_t size, const std::string& reason);
  // Some elements of a vector.
  std::vector<float> part_of_vector(const std::string& name, std::size_t size, Range part,
                                    const std::string& reason);

  // The stored tensors of which nothing has been loaded. For the first rank, which loads a part of every
  // tensor.
  std::vector<std::string> unread_tensors();

  // The first of a layer's owned rows whose weights differ from those of `other`, if any.
  std::optional<std::size_t> first_different_row(const OwnedRows& part, const StoredLayer& other);

 private:
  // A matrix and the wanted part of it.
  struct Slice {
    std::string name;
    MatrixShape shape;
    TensorSlice part;
    bool transposed = false;  // stored with rows and columns exchanged
    // Row r of the part is row first + r * apart of the matrix.
    std::size_t first = 0;
    std::size_t apart = 1;
    bool has_more = false;  // the tensor has matrices that are read later

    MatrixShape stored_shape() const { return transposed ? MatrixShape{shape.columns, shape.rows} : shape; }
    // The matrix's rows from the part's first to its last row.
    Range rows() const {
      return part.rows.empty() ? Range{} : Range{row(part.rows.begin), row(part.rows.end - 1) + 1};
    }
    TensorSlice stored_part() const {
      return transposed ? TensorSlice{part.columns, rows()} : TensorSlice{rows(), part.columns};
    }
    std::size_t row(std::size_t index) const { return first + index * apart; }

    // Calls use(slice of the matrix, its place in `some`) for runs of consecutive rows.
    template <class Use>
    void for_runs(Range some, const Use& use) const {
      const std::size_t length = apart == 1 ? some.size() : 1;
      for (std::size_t begin = some.begin; begin < some.end; begin += length)
        use(TensorSlice{{row(begin), row(begin) + length}, part.columns}, begin - some.begin);
    }
  };

  class Packing;  // in weight_packing.cc

  WeightType type_of(const Slice& slice, std::size_t leaf = 0) const;
  // Whether the type in memory holds the stored values unchanged.
  bool keeps_values(const Slice& slice) const;
  // Whether slices can be rows of one weight.
  bool are_held_alike(const Slice& one, const Slice& other) const;
  std::vector<std::uint8_t> scale_rows_of(std::span<const Slice> slices) const;
  kernels::ScaledFormat scaled_format(std::span<const Slice> slices, WeightType type) const;
  bool takes_groups(std::span<const Slice> slices, const kernels::PackedLayout& layout) const;
  // The part of a layer's weight; throws CheckpointError unless it is stored with the layer's shape.
  Slice slice_of(const StoredLayer& layer, const TensorSlice& part);
  Slice slice_of(const OwnedRows& part);
  Slice slice_of_bias(const OwnedRows& part);
  // Reads a slice of the matrix, [part.rows.size(), part.columns.size()].
  void read(const Slice& slice, const TensorSlice& part, TensorView<float> out) const;
  // Announces the slices. `sharded`: whether ranks take rows or columns of the layers' weights.
  void fetch(std::span<const Slice> slices, Sharded sharded) const;
  LocalWeight load(std::span<const Slice> slices, Sharded sharded, WeightType type, std::size_t leaf = 0);
  // Reads slices, stacked vertically, and packs them. Each thread packs some panels, and thus touches them
  // first.
  void pack(std::span<const Slice> slices, Sharded sharded, LocalWeight& weight) const;
  // Whether everything comes from the cache.
  bool has_cached() const { return cache_ != nullptr && cache_->reads(); }
  // Fills memory from the cache, or calls `make` and writes the result to the cache, if there is one.
  void fill(std::span<const Slice> slices, const kernels::PackedLayout& layout, std::span<std::byte> memory,
            const std::function<void()>& make);
  void finish(const Slice& slice);
  void read_whole(const Slice& slice, float* out);
  Buffer<float> whole(const Slice& slice);
  std::vector<float> elements_of(const Slice& slice);

  const WeightSource& source_;
  TpRank tp_;
  std::optional<WeightType> type_;
  LoadProgress progress_;
  Mode mode_;
  std::size_t leaf_heads_;
  PackedCache* cache_;
  LoadedWeights loaded_;
  std::set<const AdapterMatrix*> used_;
  std::size_t largest_columns_ = 0;
};

}  // namespace tp
