#include "model/weights/checkpoint/group_checkpoint.h"

#include "model/weights/checkpoint/printable.h"
#include "model/weights/checkpoint/slice_check.h"
#include "parallel/hash.h"
#include "tp/internal/require.h"

#include <cstring>

namespace tp {
namespace {

using Raw = SafetensorsCheckpoint::Raw;
using Method = GroupQuantization::Method;
using Shape = std::vector<std::size_t>;

// A number of 4 bits in a word of 32.
constexpr std::size_t kPerWord = 8;

std::size_t words_for(std::size_t numbers) { return (numbers + kPerWord - 1) / kPerWord; }

std::string shape_text(const Shape& shape) { return printable(shape); }

void require_shape(const Raw& raw, const Shape& expected, std::string_view reason) {
  require<CheckpointError>(
      raw.tensor.shape == expected,
      "{}: {} is {}, expected {} ({}); config.json and the weights must be of the same model", raw.file,
      printable(raw.tensor.name), shape_text(raw.tensor.shape), shape_text(expected), reason);
}

void require_matrix(const Raw& raw) {
  require<CheckpointError>(raw.tensor.shape.size() == 2 && raw.tensor.shape[0] > 0 && raw.tensor.shape[1] > 0,
                           "{}: {} is {}, expected a matrix; download the file again", raw.file,
                           printable(raw.tensor.name), shape_text(raw.tensor.shape));
}

// The type that holds groups of this size; a group of a whole row is one of any number of columns.
WeightType type_of(const StoredGroups& groups, const Raw& scales) {
  const std::size_t group = groups.group;
  const bool bf16 = groups.has_bf16_scales;
  if (group % 256 == 0 || group == groups.shape.columns)
    return bf16 ? WeightType::int4_g256_bf16 : WeightType::int4_g256;
  if (group == 128) return bf16 ? WeightType::int4_g128_bf16 : WeightType::int4_g128;
  if (group == 64) return bf16 ? WeightType::int4_g64_bf16 : WeightType::int4_g64;
  if (group == 32) return bf16 ? WeightType::int4_g32_bf16 : WeightType::int4_g32;
  throw_error<CheckpointError>(
      "{}: {} is {}, expected scales of groups of 32, 64, 128, a multiple of 256 or all of the {} columns, "
      "found "
      "groups of {}; take the model quantized in such groups, or the original one with --weights int4",
      scales.file, printable(scales.tensor.name), shape_text(scales.tensor.shape), groups.shape.columns,
      group);
}

}  // namespace

GroupCheckpoint::GroupCheckpoint(std::unique_ptr<SafetensorsCheckpoint> plain, GroupQuantization quantization)
    : plain_(std::move(plain)), quantization_(quantization) {
  const bool is_packed = quantization_.method == Method::pack_quantized;
  const std::string ending = is_packed ? ".weight_packed" : ".qweight";
  for (const std::string& name : plain_->names()) {
    if (!name.ends_with(ending)) continue;
    const std::string layer = name.substr(0, name.size() - ending.size());
    if (is_packed) {
      add_packed(layer);
    } else {
      add_outputs_last(layer);
    }
  }
}

std::string GroupCheckpoint::words_of(const std::string& layer) const {
  return layer + (quantization_.method == Method::pack_quantized ? ".weight_packed" : ".qweight");
}

// `types`: those that it may have, separated by spaces.
const Raw GroupCheckpoint::require_part(const std::string& name, std::string_view types) const {
  const std::optional<Raw> raw = plain_->find_raw(name);
  if (!raw) {
    throw_error<CheckpointError>(
        "there is no tensor {}, expected it beside the others of this {} weight; download "
        "the checkpoint again",
        printable(name), name_of(quantization_.method));
  }
  const std::string_view found = raw->tensor.type.name;
  const std::string padded = fmt::format(" {} ", types);
  require<CheckpointError>(
      padded.find(fmt::format(" {} ", found)) != std::string::npos,
      "{}: {} has the type {}, expected {}; take the model quantized in another way, or the "
      "original one with --weights int4",
      raw->file, printable(name), found, types);
  return *raw;
}

// AWQ and GPTQ.
void GroupCheckpoint::add_outputs_last(const std::string& layer) {
  const Raw words = require_part(layer + ".qweight", "I32");
  const Raw scales = require_part(layer + ".scales", "F16 BF16");
  const Raw zero_points = require_part(layer + ".qzeros", "I32");
  require_matrix(words);
  require_matrix(scales);
  const bool is_awq = quantization_.method == Method::awq;
  const std::size_t out = is_awq ? words.tensor.shape[1] * kPerWord : words.tensor.shape[1];
  const std::size_t in = is_awq ? words.tensor.shape[0] : words.tensor.shape[0] * kPerWord;
  const std::size_t groups = scales.tensor.shape[0];
  require<CheckpointError>(
      out % kPerWord == 0 && in % groups == 0,
      "{}: {} has {} inputs, {} outputs and {} groups, expected a multiple of 8 outputs and "
      "groups of the same size; take the model quantized in another way",
      words.file, printable(words.tensor.name), in, out, groups);
  require_shape(scales, {groups, out}, "groups, output features");
  require_shape(zero_points, {groups, out / kPerWord}, "groups, output features / 8");
  const StoredGroups stored{quantization_,
                            {out, in},
                            in / groups,
                            words.data,
                            scales.data,
                            zero_points.data,
                            StoredGroups::ZeroPoints::words,
                            scales.tensor.type.name == "BF16"};
  check_order(layer + ".g_idx", stored);
  add(layer, stored, {layer + ".scales", layer + ".qzeros"});
}

void GroupCheckpoint::add_packed(const std::string& layer) {
  const Raw words = require_part(layer + ".weight_packed", "I32");
  const Raw scales = require_part(layer + ".weight_scale", "F16 BF16");
  const Raw shape = require_part(layer + ".weight_shape", "I64 I32");
  require_matrix(words);
  require_matrix(scales);
  require_shape(shape, {2}, "output features, input features");
  std::int64_t sizes[2];
  if (shape.tensor.type.name == "I64") {
    std::memcpy(sizes, shape.data, sizeof sizes);
  } else {
    std::int32_t shorter[2];
    std::memcpy(shorter, shape.data, sizeof shorter);
    sizes[0] = shorter[0];
    sizes[1] = shorter[1];
  }
  const auto out = static_cast<std::size_t>(sizes[0]);
  const auto in = static_cast<std::size_t>(sizes[1]);
  const std::size_t groups = scales.tensor.shape[1];
  require<CheckpointError>(
      sizes[0] > 0 && sizes[1] > 0 && in < SIZE_MAX / 2 && in % groups == 0,
      "{}: {} has {} inputs and {} groups, expected groups of the same size; take the model "
      "quantized in another way",
      words.file, printable(words.tensor.name), sizes[1], groups);
  require_shape(words, {out, words_for(in)}, "output features, input features / 8");
  require_shape(scales, {out, groups}, "output features, groups");
  StoredGroups stored{quantization_,
                      {out, in},
                      in / groups,
                      words.data,
                      scales.data,
                      nullptr,
                      StoredGroups::ZeroPoints::none,
                      scales.tensor.type.name == "BF16"};
  std::vector<std::string> shared = {layer + ".weight_scale", layer + ".weight_shape"};
  const std::string of_zeros = layer + ".weight_zero_point";
  if (plain_->contains(of_zeros)) {
    const Raw zero_points = require_part(of_zeros, "I32 I8");
    const bool are_words = zero_points.tensor.type.name == "I32";
    require_shape(zero_points, {are_words ? words_for(out) : out, groups}, "output features, groups");
    stored.zero_points = zero_points.data;
    stored.zero_points_kind = are_words ? StoredGroups::ZeroPoints::words : StoredGroups::ZeroPoints::bytes;
    shared.push_back(of_zeros);
  }
  check_order(layer + ".weight_g_idx", stored);
  add(layer, stored, std::move(shared));
}

// Where there is a list of the columns' groups, they must be one after the other.
void GroupCheckpoint::check_order(const std::string& layer_list, const StoredGroups& groups) {
  if (!plain_->contains(layer_list)) return;
  const Raw list = require_part(layer_list, "I32");
  require_shape(list, {groups.shape.columns}, "input features");
  for (std::size_t column = 0; column < groups.shape.columns; ++column) {
    std::int32_t index;
    std::memcpy(&index, list.data + column * sizeof index, sizeof index);
    require<CheckpointError>(
        static_cast<std::size_t>(index) == column / groups.group,
        "{}: {} has column {} in group {}, expected {}: columns ordered by activations (desc_act, actorder) "
        "are not "
        "supported; take the model quantized without, or the original one with --weights int4",
        list.file, printable(layer_list), column, index, column / groups.group);
  }
  plain_->count_shared(layer_list);
  parts_.insert(layer_list);
}

void GroupCheckpoint::add(const std::string& layer, const StoredGroups& groups,
                          std::vector<std::string> shared) {
  const WeightType type = type_of(groups, *plain_->find_raw(shared.front()));
  const std::string words = words_of(layer);
  parts_.insert(words);
  parts_.insert(shared.begin(), shared.end());
  matrices_.emplace(layer + ".weight", Matrix{groups, type, words, std::move(shared)});
}

const GroupCheckpoint::Matrix* GroupCheckpoint::find(const std::string& name) const {
  const auto found = matrices_.find(name);
  return found == matrices_.end() ? nullptr : &found->second;
}

const GroupCheckpoint::Matrix& GroupCheckpoint::find(const std::string& name, MatrixShape shape,
                                                     const std::string& reason) const {
  const Matrix& matrix = *find(name);
  const MatrixShape stored = matrix.groups.shape;
  require<CheckpointError>(
      stored == shape,
      "{}: {} holds [{}, {}], expected [{}, {}]{}; config.json and the weights must be of the same model",
      plain_->find_raw(matrix.words)->file, printable(matrix.words), stored.rows, stored.columns, shape.rows,
      shape.columns, reason.empty() ? "" : fmt::format(" ({})", reason));
  return matrix;
}

bool GroupCheckpoint::contains(const std::string& name) const {
  return find(name) != nullptr || plain_->contains(name);
}

std::vector<std::string> GroupCheckpoint::names() const {
  std::set<std::string> result;
  for (const std::string& name : plain_->names()) {
    if (!parts_.contains(name)) result.insert(name);
  }
  for (const auto& [name, matrix] : matrices_) result.insert(name);
  return {result.begin(), result.end()};
}

DType GroupCheckpoint::dtype(const std::string& name) const {
  return find(name) != nullptr ? DType::f32 : plain_->dtype(name);
}

std::optional<WeightType> GroupCheckpoint::group_type(const std::string& name, Range columns) const {
  const Matrix* const matrix = find(name);
  if (matrix == nullptr) return plain_->group_type(name, columns);
  return matrix->type;
}

void GroupCheckpoint::expect(const std::string& name, MatrixShape shape, const std::string& reason) const {
  if (find(name) == nullptr) return plain_->expect(name, shape, reason);
  find(name, shape, reason);
}

void GroupCheckpoint::fetch(const std::string& name, MatrixShape shape, std::span<const TensorSlice> slices,
                            Sharded sharded) const {
  const Matrix* const matrix = find(name);
  if (matrix == nullptr) return plain_->fetch(name, shape, slices, sharded);
  plain_->will_need(matrix->words);
  for (const std::string& part : matrix->shared) plain_->will_need(part);
}

void GroupCheckpoint::read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                           TensorView<float> out) const {
  if (find(name) == nullptr) return plain_->read(name, shape, slice, out);
  const Matrix& matrix = find(name, shape, "");
  check_slice(name, shape, slice, out);
  matrix.groups.read(slice, out);
  count(matrix, slice);
}

std::optional<StoredRows> GroupCheckpoint::stored_rows(const std::string& name, MatrixShape shape,
                                                       const TensorSlice& slice) const {
  if (find(name) == nullptr) return plain_->stored_rows(name, shape, slice);
  return std::nullopt;
}

void GroupCheckpoint::read_quantized(const std::string& name, MatrixShape shape, const TensorSlice& slice,
                                     const kernels::QuantizedRows& out) const {
  if (find(name) == nullptr) return plain_->read_quantized(name, shape, slice, out);
  const Matrix& matrix = find(name, shape, "");
  matrix.groups.read(slice, out);
  count(matrix, slice);
}

// Scales and zero points, of which slices share some, count as read as a whole.
void GroupCheckpoint::count(const Matrix& matrix, const TensorSlice& slice) const {
  plain_->count_raw(matrix.words, slice.size() / 2);
  for (const std::string& part : matrix.shared) plain_->count_shared(part);
}

std::vector<TypeUse> GroupCheckpoint::types() const {
  TypeUses uses;
  for (const std::string& name : plain_->names()) {
    if (!parts_.contains(name)) uses.add(plain_->type_use(name));
  }
  for (const auto& [name, matrix] : matrices_) {
    const StoredGroups& groups = matrix.groups;
    const std::string size =
        groups.group == groups.shape.columns ? "a group a row" : fmt::format("groups of {}", groups.group);
    uses.add({.type = fmt::format("{} int4, {}", name_of(quantization_.method), size),
              .tensors = 1,
              .elements = groups.shape.size(),
              .held_as = matrix.type,
              .exactly = true});
  }
  return uses.sorted();
}

// The same tensors mean something else in another format.
std::uint64_t GroupCheckpoint::of_quantization(std::uint64_t hash) const {
  return mixed(hash ^ (static_cast<std::uint64_t>(quantization_.method) * 2 +
                       (quantization_.zero_points_less_one ? 1U : 0U) + 1U));
}

void GroupCheckpoint::done_with(const std::string& name) const {
  const Matrix* const matrix = find(name);
  if (matrix == nullptr) return plain_->done_with(name);
  plain_->done_with(matrix->words);
  for (const std::string& part : matrix->shared) plain_->done_with(part);
}

}  // namespace tp
