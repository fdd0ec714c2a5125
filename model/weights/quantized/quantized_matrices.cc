#include "model/weights/quantized/quantized_matrices.h"

#include "model/files/printable.h"
#include "model/weights/quantized/activation_scales.h"
#include "model/weights/quantized/four_bit_floats.h"
#include "model/weights/quantized/quantized_parts.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace tp {
namespace {

using Raw = SafetensorsCheckpoint::Raw;
using Method = GroupQuantization::Method;
using Shape = std::vector<std::size_t>;
using Layout = StoredGroups::Layout;
using ZeroPoints = StoredGroups::ZeroPoints;
using kernels::ScaleType;

std::size_t divide_up(std::size_t number, std::size_t by) { return (number - 1) / by + 1; }

// Before E8M0 had a name, it was stored as U8.
bool are_exponents(const Raw& scales) {
  return scales.tensor.type.name == "F8_E8M0" || scales.tensor.type.name == "U8";
}

// bf16 represents all powers of two of E8M0.
ScaleType scale_type(const Raw& scales) {
  const std::string_view name = scales.tensor.type.name;
  return name == "F32" ? ScaleType::f32 : name == "F16" ? ScaleType::f16 : ScaleType::bf16;
}

class Finder {
 public:
  Finder(const SafetensorsCheckpoint& plain, const GroupQuantization& quantization)
      : plain_(plain), quantization_(quantization), parts_(plain, quantization.method) {}
  QuantizedMatrices find();

 private:
  void add_outputs_last(const std::string& layer);
  void add_packed(const std::string& layer);
  void add_bytes(const std::string& name);
  void add(const std::string& name, QuantizedMatrix matrix);
  MatrixShape packed_shape(const std::string& name) const;
  StoredScales blocks_of(const Raw& scales, MatrixShape shape) const;
  void set_columns(QuantizedMatrix& matrix, const std::string& of_list);
  Raw require_part(const std::string& name, std::string_view types) const {
    return parts_.require(name, types);
  }

  // DeepSeek's own files name a layer's scales LAYER.scale.
  std::string name_of_scales(const std::string& weight) const {
    for (const char* const end : {"_scale_inv", "_scale"})
      if (plain_.contains(weight + end)) return weight + end;
    return weight.ends_with(".weight") ? layer_of(weight, ".weight") + ".scale" : weight + "_scale";
  }

  // Whether the scales of 4-bit floats are powers of two, which are stored as exponents.
  bool has_exponents(const std::string& layer) const {
    const std::optional<Raw> scales = plain_.find_raw(layer + ".weight_scale");
    return scales && scales->tensor.type.name == "U8";
  }

  const SafetensorsCheckpoint& plain_;
  const GroupQuantization& quantization_;
  QuantizedParts parts_;
  QuantizedMatrices found_;
};

QuantizedMatrices Finder::find() {
  const Method method = quantization_.method;
  for (const std::string& name : plain_.names()) {
    const std::string_view type = plain_.find_raw(name)->tensor.type.name;
    if ((method == Method::awq || method == Method::gptq) && name.ends_with(".qweight")) {
      add_outputs_last(layer_of(name, ".qweight"));
    } else if (method == Method::compressed_tensors && name.ends_with(".weight_packed")) {
      const std::string layer = layer_of(name, ".weight_packed");
      if (type != "U8")
        add_packed(layer);
      else
        add(layer + ".weight", has_exponents(layer) ? packed_mxfp4_matrix(parts_, compressed_mxfp4(layer))
                                                    : nvfp4_matrix(parts_, layer));
    } else if (method == Method::nvfp4 && type == "U8" && name.ends_with(".weight")) {
      add(name, nvfp4_matrix(parts_, layer_of(name, ".weight")));
    } else if (method == Method::bitsandbytes && name.ends_with(kNf4State)) {
      const std::string weight = layer_of(name, kNf4State);
      add(weight, nf4_matrix(parts_, weight));
    } else if (method == Method::mxfp4 && type == "U8" && name.ends_with("_blocks")) {
      add(name, mxfp4_matrix(parts_, name));
    } else if (method == Method::fp8 && type == "I8" && name.ends_with(".weight") &&
               plain_.contains(layer_of(name, ".weight") + ".scale")) {
      add(name, packed_mxfp4_matrix(parts_, deepseek_mxfp4(layer_of(name, ".weight"))));
    } else if (type == "F8_E4M3" || (type == "I8" && method == Method::compressed_tensors)) {
      add_bytes(name);
    } else if (is_activation_scale(name)) {
      plain_.count_shared(name);
      found_.parts.insert(name);
    }
  }
  return std::move(found_);
}

// Bits of AWQ's and GPTQ's numbers: each output has a scale, and 32 / bits outputs share a word of zero
// points.
unsigned bits_of(const Raw& scales, const Raw& zero_points) {
  const std::size_t out = scales.tensor.shape[1];
  const std::size_t words = zero_points.tensor.shape[1];
  for (const unsigned bits : {4U, 8U}) {
    if (words * 32 == out * bits) return bits;
  }
  throw_error<CheckpointError>(
      "{}: {} has {} columns and {} has {}, expected 8 or 4 times as many scales as words of zero points; "
      "use a different quantization of the model",
      scales.file, printable(scales.tensor.name), out, printable(zero_points.tensor.name), words);
}

// Adds a weight of AWQ or GPTQ.
void Finder::add_outputs_last(const std::string& layer) {
  const Raw words = require_part(layer + ".qweight", "I32");
  const Raw scales = require_part(layer + ".scales", "F16 BF16 F32");
  const Raw zero_points = require_part(layer + ".qzeros", "I32");
  require_matrix(words);
  require_matrix(scales);
  require_matrix(zero_points);
  const bool is_awq = quantization_.method == Method::awq;
  const unsigned bits = quantization_.bits != 0 ? quantization_.bits : bits_of(scales, zero_points);
  const std::size_t per_word = 32 / bits;
  const std::size_t out = is_awq ? words.tensor.shape[1] * per_word : words.tensor.shape[1];
  const std::size_t in = is_awq ? words.tensor.shape[0] : words.tensor.shape[0] * per_word;
  const std::size_t groups = scales.tensor.shape[0];
  require<CheckpointError>(
      out % per_word == 0,
      "{}: {} has {} outputs, expected a multiple of {}; use a different quantization of the model",
      words.file, printable(words.tensor.name), out, per_word);
  require_shape(scales, {groups, out}, "groups, output features");
  require_shape(zero_points, {groups, out / per_word}, fmt::format("groups, output features / {}", per_word));
  QuantizedMatrix matrix{{.layout = is_awq ? Layout::awq : Layout::gptq,
                          .bits = bits,
                          .shape = {out, in},
                          .groups = {.type = scale_type(scales), .has_zero_points = true, .groups = groups},
                          .scales = scales.data,
                          .zero_points = zero_points.data,
                          .zero_points_kind = ZeroPoints::words,
                          .zero_points_less_one = quantization_.zero_points_less_one},
                         {},
                         layer + ".qweight",
                         {layer + ".scales", layer + ".qzeros"},
                         {}};
  set_columns(matrix, layer + ".g_idx");
  add(layer + ".weight", std::move(matrix));
}

// The output and input features of a packed weight.
MatrixShape Finder::packed_shape(const std::string& name) const {
  const Raw shape = require_part(name, "I64 I32");
  require_shape(shape, {2}, "output features, input features");
  std::int64_t sizes[2];
  if (shape.tensor.type.name == "I64") {
    std::memcpy(sizes, shape.data, sizeof sizes);
  } else {
    std::int32_t shorter[2];
    std::memcpy(shorter, shape.data, sizeof shorter);
    std::copy_n(shorter, 2, sizes);
  }
  constexpr std::int64_t kMax = std::int64_t{1} << 40;
  require<CheckpointError>(
      sizes[0] > 0 && sizes[1] > 0 && sizes[0] < kMax && sizes[1] < kMax,
      "{}: {} holds {} and {}, expected output and input features; download the file again", shape.file,
      printable(name), sizes[0], sizes[1]);
  return {static_cast<std::size_t>(sizes[0]), static_cast<std::size_t>(sizes[1])};
}

void Finder::add_packed(const std::string& layer) {
  const Raw words = require_part(layer + ".weight_packed", "I32");
  const Raw scales = require_part(layer + ".weight_scale", "F16 BF16 F32");
  require_matrix(words);
  require_matrix(scales);
  const auto [out, in] = packed_shape(layer + ".weight_shape");
  const std::size_t groups = scales.tensor.shape[1];
  unsigned bits = quantization_.bits;
  if (bits == 0) bits = words.tensor.shape[1] == divide_up(in, 8) ? 4 : 8;
  const std::size_t per_word = 32 / bits;
  require_shape(words, {out, divide_up(in, per_word)},
                fmt::format("output features, input features / {}", per_word));
  require_shape(scales, {out, groups}, "output features, groups");
  QuantizedMatrix matrix{{.layout = Layout::packed,
                          .bits = bits,
                          .shape = {out, in},
                          .groups = {.type = scale_type(scales), .groups = groups},
                          .scales = scales.data},
                         {},
                         layer + ".weight_packed",
                         {layer + ".weight_scale", layer + ".weight_shape"},
                         {}};
  const std::string of_zeros = layer + ".weight_zero_point";
  if (plain_.contains(of_zeros)) {
    const Raw zero_points = require_part(of_zeros, "I32 I8");
    const bool are_words = zero_points.tensor.type.name == "I32";
    require_shape(zero_points, {are_words ? divide_up(out, per_word) : out, groups},
                  "output features, groups");
    matrix.groups.zero_points = zero_points.data;
    matrix.groups.zero_points_kind = are_words ? ZeroPoints::words : ZeroPoints::bytes;
    matrix.groups.groups.has_zero_points = true;
    matrix.shared.push_back(of_zeros);
  }
  set_columns(matrix, layer + ".weight_g_idx");
  add(layer + ".weight", std::move(matrix));
}

// Adds FP8, or int8 of compressed-tensors. Without scales, no model reads the tensor, or reading it reports
// an error.
void Finder::add_bytes(const std::string& name) {
  const Raw elements = *plain_.find_raw(name);
  const std::string of_scales = name_of_scales(name);
  if (!is_matrix(elements.tensor.shape) || !plain_.contains(of_scales)) return;
  const bool is_e4m3 = elements.tensor.type.name == "F8_E4M3";
  const Raw scales = require_part(of_scales, is_e4m3 ? "F32 F16 BF16 F8_E8M0 U8" : "F32 F16 BF16");
  const MatrixShape shape{elements.tensor.shape[0], elements.tensor.shape[1]};
  QuantizedMatrix matrix{{.is_e4m3 = is_e4m3,
                          .shape = shape,
                          .groups = blocks_of(scales, shape),
                          .scales = scales.data,
                          .scales_are_exponents = are_exponents(scales)},
                         {},
                         name,
                         {of_scales},
                         {}};
  const std::string of_zeros = name + "_zero_point";
  if (!matrix.groups.is_e4m3 && plain_.contains(of_zeros)) {
    const Raw zero_points = require_part(of_zeros, "I8");
    require_shape(zero_points, scales.tensor.shape, "as the scales");
    matrix.groups.zero_points = zero_points.data;
    matrix.groups.zero_points_kind = ZeroPoints::bytes;
    matrix.groups.groups.has_zero_points = true;
    matrix.shared.push_back(of_zeros);
  }
  add(name, std::move(matrix));
}

// Finds which elements of a matrix share scales, from the shape of the scales.
StoredScales Finder::blocks_of(const Raw& scales, MatrixShape shape) const {
  Shape found = scales.tensor.shape;
  // ModelOpt stores scales of blocks as [rows, 1, columns, 1].
  if (found.size() == 4 && found[1] == 1 && found[3] == 1) found = {found[0], found[2]};
  const ScaleType type = scale_type(scales);
  const std::size_t block_rows = quantization_.block_rows;
  const std::size_t block_columns = quantization_.block_columns;
  const Shape of_blocks = {divide_up(shape.rows, block_rows), divide_up(shape.columns, block_columns)};
  if (std::ranges::all_of(found, [](std::size_t size) { return size == 1; }))
    return {.type = type, .row_block = shape.rows, .column_block = shape.columns};
  if (found == Shape{shape.rows}) return {.type = type, .column_block = shape.columns};
  if (found == of_blocks) {
    return {.type = type, .row_block = block_rows, .column_block = block_columns, .groups = of_blocks[1]};
  }
  if (is_matrix(found) && found[0] == shape.rows && shape.columns % found[1] == 0)
    return {.type = type, .column_block = shape.columns / found[1], .groups = found[1]};
  throw_error<CheckpointError>(
      "{}: {} is {}, expected {} (blocks of {} x {}), [{}, groups] or one number; config.json and the "
      "weights "
      "must be of the same model",
      scales.file, printable(scales.tensor.name), printable(found), printable(of_blocks), block_rows,
      block_columns, shape.rows);
}

// Sets the columns' groups: contiguous, or given by a list.
void Finder::set_columns(QuantizedMatrix& matrix, const std::string& of_list) {
  StoredScales& scales = matrix.groups.groups;
  const std::size_t columns = matrix.groups.shape.columns;
  const bool are_equal = columns % scales.groups == 0;
  scales.column_block = are_equal ? columns / scales.groups : 0;
  if (!plain_.contains(of_list)) {
    const Raw words = *plain_.find_raw(matrix.stored);
    require<CheckpointError>(are_equal,
                             "{}: {} has {} inputs and {} groups, expected groups of the same size; use a "
                             "different quantization of the model",
                             words.file, printable(matrix.stored), columns, scales.groups);
    return;
  }
  const Raw list = require_part(of_list, "I32");
  require_shape(list, {columns}, "input features");
  require<CheckpointError>(scales.groups <= 65536, "{}: {} has {} groups, expected 65536 at most", list.file,
                           printable(of_list), scales.groups);
  bool is_in_order = are_equal;
  for (std::size_t column = 0; column < columns; ++column) {
    std::int32_t index;
    std::memcpy(&index, list.data + column * sizeof index, sizeof index);
    require<CheckpointError>(index >= 0 && static_cast<std::size_t>(index) < scales.groups,
                             "{}: {} has column {} in group {}, expected one of {}; download the file again",
                             list.file, printable(of_list), column, index, scales.groups);
    is_in_order = is_in_order && static_cast<std::size_t>(index) == column / scales.column_block;
    matrix.column_groups.push_back(static_cast<std::uint16_t>(index));
  }
  if (!is_in_order) {
    scales.column_block = 0;
    scales.column_groups = matrix.column_groups;
  }
  matrix.shared.push_back(of_list);
}

void Finder::add(const std::string& name, QuantizedMatrix matrix) {
  matrix.type = type_of(matrix.groups);
  found_.parts.insert(matrix.stored);
  found_.parts.insert(matrix.shared.begin(), matrix.shared.end());
  found_.by_name.emplace(name, std::move(matrix));
}

}  // namespace

WeightType type_of(const StoredGroups& weight) {
  if (weight.layout == Layout::mxfp4) return WeightType::mxfp4;
  if (weight.layout == Layout::nvfp4) return WeightType::nvfp4;
  if (weight.layout == Layout::nf4) return WeightType::nf4;
  if (weight.is_e4m3) return WeightType::f8_e4m3;
  if (weight.bits == 8) return WeightType::int8_scaled;
  const std::size_t group = weight.groups.column_block;
  const bool bf16 = weight.groups.type == ScaleType::bf16;
  if (group == 0 || weight.groups.type == ScaleType::f32) return WeightType::int4_scaled;
  if (group % 256 == 0 || group == weight.shape.columns)
    return bf16 ? WeightType::int4_g256_bf16 : WeightType::int4_g256;
  if (group == 128) return bf16 ? WeightType::int4_g128_bf16 : WeightType::int4_g128;
  if (group == 64) return bf16 ? WeightType::int4_g64_bf16 : WeightType::int4_g64;
  if (group != 32) return WeightType::int4_scaled;
  if (!weight.groups.has_zero_points) return bf16 ? WeightType::int4_sym_g32_bf16 : WeightType::int4_sym_g32;
  return bf16 ? WeightType::int4_g32_bf16 : WeightType::int4_g32;
}

QuantizedMatrices find_quantized_matrices(const SafetensorsCheckpoint& plain,
                                          const GroupQuantization& quantization) {
  return Finder(plain, quantization).find();
}

}  // namespace tp
