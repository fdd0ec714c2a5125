#include "model/layers/linear/layer_adapters.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/layers/linear/adapted_rows.h"
#include "model/layers/linear/adapter_weight.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

namespace tp {
namespace {

// The layer that adapters name: a matrix of a stack has a name only in files without stacks.
StoredLayer without_stack(const StoredLayer& layer) {
  if (layer.stack.matrices == 0) return layer;
  return {.name = layer.stack.layer,
          .shape = {layer.stack.layer_rows, layer.shape.columns},
          .out_reason = "the features of one expert",
          .in_reason = layer.in_reason};
}

OwnedRows without_stack(const OwnedRows& part) {
  if (part.layer.stack.matrices == 0) return part;
  const std::size_t first = part.layer.stack.first;
  const Range rows =
      part.apart == 1 ? Range{part.rows.begin - first, part.rows.end - first} : part.rows;  // alternating
  return {without_stack(part.layer), rows};
}

}  // namespace

LayerAdapters::LayerAdapters(WeightLoader& loader, std::span<const OwnedRows> stored) {
  if (stored.empty() || loader.adapters() == nullptr) return;
  std::vector<OwnedRows> parts;
  std::ranges::transform(stored, std::back_inserter(parts),
                         [](const OwnedRows& part) { return without_stack(part); });
  for_adapters(loader, [&](std::size_t index, const Adapter& adapter) {
    const std::size_t columns = parts.front().layer.shape.columns;
    StackedRows a(loader, columns);
    Factors factors{.adapter = index, .a = {}, .scaled = {}, .ups = {}};
    std::size_t first = 0;             // output feature
    std::vector<std::string> stacked;  // the layers of factors.scaled
    for (std::size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
      // Consecutive rows of a stored layer are rows of one B.
      const StoredLayer& layer = parts[begin].layer;
      const AdapterLayer* const found = factors_of(loader, adapter, layer);
      StackedRows b(loader, found != nullptr ? found->rank() : 0);
      std::size_t rows = 0;
      for (; end < parts.size() && parts[end].layer.name == layer.name; ++end) {
        const OwnedRows& part = parts[end];
        rows += part.rows.size();
        const std::size_t run = part.apart == 1 ? part.rows.size() : 1;
        for (std::size_t row = part.rows.begin; found != nullptr && row < part.rows.end; row += run) {
          const std::size_t stored = part.first + row * part.apart;
          b.append(found->b, {{stored, stored + run}, {0, found->rank()}});
        }
      }
      if (found != nullptr && rows != 0) {
        const auto place = static_cast<std::size_t>(std::ranges::find(stacked, layer.name) - stacked.begin());
        if (place == stacked.size()) {
          const std::size_t before = a.rows();
          a.append(found->a, TensorSlice::whole(found->a.shape));
          stacked.push_back(layer.name);
          factors.scaled.push_back({{before, a.rows()}, found->scale});
        }
        factors.ups.push_back({factors.scaled[place].ranks, first, b.packed(loader, {0, found->rank()})});
      }
      first += rows;
    }
    if (factors.ups.empty()) return;
    factors.a.push_back(a.packed(loader, {0, columns}));
    all_.push_back(std::move(factors));
  });
}

LayerAdapters::LayerAdapters(WeightLoader& loader, const StoredLayer& stored, Range columns,
                             std::size_t leaf) {
  const StoredLayer layer = without_stack(stored);
  for_adapters(loader, [&](std::size_t index, const Adapter& adapter) {
    const AdapterLayer* const found = factors_of(loader, adapter, layer);
    if (found == nullptr || columns.empty()) return;
    StackedRows a(loader, columns.size());
    a.append(found->a, {{0, found->rank()}, columns});
    StackedRows b(loader, found->rank());
    b.append(found->b, TensorSlice::whole(found->b.shape));
    const Range ranks{0, found->rank()};
    Factors factors{.adapter = index, .a = {}, .scaled = {{ranks, found->scale}}, .ups = {}};
    const std::size_t step = leaf == 0 ? columns.size() : leaf;
    for (std::size_t begin = 0; begin < columns.size(); begin += step)
      factors.a.push_back(a.packed(loader, {begin, std::min(begin + step, columns.size())}));
    // With leaves, the product with B is the result of one leaf.
    factors.ups.push_back({ranks, 0, b.packed(loader, ranks, leaf == 0 ? 0 : found->rank())});
    all_.push_back(std::move(factors));
  });
}

const LayerAdapters::Factors* LayerAdapters::find(std::size_t adapter) const {
  const auto found = std::ranges::find(all_, adapter, &Factors::adapter);
  return found == all_.end() ? nullptr : &*found;
}

bool LayerAdapters::change(const StepContext& step) const {
  if (empty() || step.adapters == nullptr) return !empty();
  return std::ranges::any_of(step.adapters->groups(),
                             [&](const auto& group) { return find(group.adapter) != nullptr; });
}

void LayerAdapters::add_to(TensorView<const float> x, const StepContext& step, TensorView<float> y) const {
  add(x, step, y);
}

void LayerAdapters::add_to(TensorView<const float> x, const StepContext& step, TensorView<double> y) const {
  add(x, step, y);
}

template <class T>
void LayerAdapters::add(TensorView<const float> x, const StepContext& step, TensorView<T> y) const {
  for_adapted_rows(all_, step, x.rows(), !y.empty(),
                   [&](const Factors& factors, std::span<const std::size_t> rows) {
                     add_rows(factors, x, rows, step, y);
                   });
}

template <class T>
void LayerAdapters::add_rows(const Factors& factors, TensorView<const float> x,
                             std::span<const std::size_t> rows, const StepContext& step,
                             TensorView<T> y) const {
  const bool gathers = step.adapters == nullptr || rows.back() - rows.front() + 1 != rows.size();
  Workspace& workspace = step.workspace;
  const Workspace::Frame frame(workspace);
  TensorView<const float> in = x.rows_from(rows.front(), gathers ? 1 : rows.size());
  if (gathers) {
    const TensorView<float> gathered = workspace.take(rows.size(), x.columns());
    kernels::gather_rows(x, rows, gathered);
    in = gathered;
  }
  std::size_t first_column = 0;
  for (const LocalWeight& a : factors.a) {
    const Workspace::Frame frame_of_leaf(workspace);
    const TensorView<float> inner = a.multiply(in.columns_from(first_column, a.in_features()), workspace);
    first_column += a.in_features();
    for (const Scaled& part : factors.scaled)
      kernels::scale(part.scale, inner.columns_from(part.ranks.begin, part.ranks.size()));
    for (const Up& up : factors.ups) {
      const Workspace::Frame frame_of_up(workspace);
      const TensorView<float> own = inner.columns_from(up.ranks.begin, up.ranks.size());
      TensorView<T> out;
      if constexpr (std::is_same_v<T, double>) {
        out = workspace.take_doubles(rows.size(), up.b.out_features());
        up.b.multiply_leaves(own, workspace, out);
      } else {
        out = up.b.multiply(own, workspace);
      }
      if (out.empty()) continue;
      for_thread_parts(rows.size(), out.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          T* const sum = y.row(rows[i]) + up.first;
          for (std::size_t feature = 0; feature < out.columns(); ++feature) sum[feature] += out(i, feature);
        }
      });
    }
  }
}

}  // namespace tp
