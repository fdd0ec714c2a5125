#include "model/weights/adapters/merged_checkpoint.h"

#include "model/files/printable.h"
#include "model/weights/source/low_rank.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tp {
namespace {

constexpr std::string_view kMergedEnd = ".weight";

std::string_view merged_layer_of(std::string_view tensor) {
  return tensor.ends_with(kMergedEnd) ? tensor.substr(0, tensor.size() - kMergedEnd.size())
                                      : std::string_view();
}

// The shape of B A in the checkpoint.
MatrixShape shape_of_product(const AdapterLayer& layer, bool transposed) {
  const std::size_t out = layer.b.shape.rows;
  const std::size_t in = layer.a.shape.columns;
  return transposed || layer.is_embedding ? MatrixShape{in, out} : MatrixShape{out, in};
}

struct FactorPart {
  std::vector<float> values;
  TensorView<float> view;
};

// FactorPart of a factor, or of its transpose.
FactorPart part_of_factor(const AdapterMatrix& matrix, Range rows, Range columns, bool transposed) {
  FactorPart part{std::vector<float>(rows.size() * columns.size()), {}};
  part.view = {part.values.data(), rows.size(), columns.size()};
  if (!transposed) {
    matrix.read({rows, columns}, part.view);
    return part;
  }
  std::vector<float> stored(part.values.size());
  const TensorView<float> view(stored.data(), columns.size(), rows.size());
  matrix.read({columns, rows}, view);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns.size(); ++column)
      part.view(row, column) = view(column, row);
  }
  return part;
}

}  // namespace

MergedCheckpoint::MergedCheckpoint(std::unique_ptr<WeightSource> stored, Adapters adapters,
                                   const ModelSpec& spec)
    : SourceDecorator(std::move(stored)), merged_(std::move(adapters)) {
  const TensorNames names = spec.names.as_stored_in(this->stored());
  if (names.block(0).transposed) blocks_ = layer_key(names.prefix + names.blocks);
  std::set<std::string> known;
  for (const std::string& name : this->stored().names()) known.insert(layer_key(name));
  std::set<std::string> tied;
  for (const std::string& table : {names.lm_head, names.embed_tokens}) {
    if (spec.tied_embeddings) tied.insert(layer_key(tensor_names::weight_of(table)));
  }
  for (const Adapter& adapter : merged_.all()) {
    const auto check = [&](const std::string& tensor) {
      require<ConfigError>(
          known.contains(tensor),
          "{}: the adapter {} changes {}, but the model has no such tensor; choose an adapter of "
          "this model",
          printable(adapter.place), printable(adapter.name), printable(tensor));
      require<ConfigError>(
          !tied.contains(tensor),
          "{}: cannot merge the adapter {}: it changes {}, which is embedding and LM head at once; "
          "use it together with the model (--lora of generate and serve)",
          printable(adapter.place), printable(adapter.name), printable(tensor));
    };
    for (const auto& [layer, factors] : adapter.layers) check(tensor_names::weight_of(layer));
    for (const auto& [tensor, matrix] : adapter.tensors) check(tensor);
  }
}

bool MergedCheckpoint::is_transposed(std::string_view tensor) const {
  return !blocks_.empty() && layer_key(tensor).starts_with(blocks_);
}

bool MergedCheckpoint::changes(std::string_view tensor) const {
  return std::ranges::any_of(merged_.all(), [&](const Adapter& adapter) {
    return adapter.find(merged_layer_of(tensor)) != nullptr || adapter.find_tensor(tensor) != nullptr;
  });
}

// A sum has no type of the file. A tensor in place of another one keeps its own.
DType MergedCheckpoint::dtype(const std::string& name) const {
  DType type = stored().dtype(name);
  for (const Adapter& adapter : merged_.all()) {
    if (const AdapterMatrix* const own = adapter.find_tensor(name)) type = own->type;
    if (adapter.find(merged_layer_of(name)) != nullptr) type = DType::f32;
  }
  return type;
}

std::optional<WeightType> MergedCheckpoint::group_type(const std::string& name, Range columns) const {
  return changes(name) ? std::nullopt : stored().group_type(name, columns);
}

std::optional<StoredRows> MergedCheckpoint::stored_rows(const std::string& name, MatrixShape shape,
                                                        const TensorSlice& slice) const {
  return changes(name) ? std::nullopt : stored().stored_rows(name, shape, slice);
}

std::optional<MappedRows> MergedCheckpoint::mapped_rows(const std::string& name, MatrixShape shape) const {
  return changes(name) ? std::nullopt : stored().mapped_rows(name, shape);
}

void MergedCheckpoint::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  stored().expect(name, shape, reason);
  for (const Adapter& adapter : merged_.all()) {
    const auto check = [&](MatrixShape found) {
      require<CheckpointError>(
          found == shape,
          "{}: the adapter {} changes {} by [{}, {}], expected [{}, {}] as in the model; choose "
          "an adapter of this model",
          printable(adapter.place), printable(adapter.name), printable(name), found.rows, found.columns,
          shape.rows, shape.columns);
    };
    if (const AdapterLayer* const layer = adapter.find(merged_layer_of(name)))
      check(shape_of_product(*layer, is_transposed(name)));
    if (const AdapterMatrix* const own = adapter.find_tensor(name)) check(own->shape);
  }
}

void MergedCheckpoint::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                            TensorView<float> out) const {
  stored().read(name, shape, slice, out);
  for (const Adapter& adapter : merged_.all()) {
    if (const AdapterMatrix* const own = adapter.find_tensor(name)) own->read(slice, out);
    const AdapterLayer* const layer = adapter.find(merged_layer_of(name));
    if (layer == nullptr) continue;
    const Range ranks{0, layer->rank()};
    // The transpose of B A is the product of the transposes of A and B.
    const bool transposed = layer->is_embedding || is_transposed(name);
    const FactorPart left = part_of_factor(transposed ? layer->a : layer->b, slice.rows, ranks, transposed);
    const FactorPart right =
        part_of_factor(transposed ? layer->b : layer->a, ranks, slice.columns, transposed);
    add_low_rank(left.view, right.view, layer->scale, out);
  }
}

}  // namespace tp
