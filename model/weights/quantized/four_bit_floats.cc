#include "model/weights/quantized/four_bit_floats.h"

#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Raw = QuantizedParts::Raw;
using Layout = StoredGroups::Layout;

// A weight's layout. bitsandbytes' QuantState.as_dict writes it as the bytes of JSON.
struct Nf4State {
  MatrixShape shape;
  std::size_t block = 64;
  std::size_t nested_block = 256;
  float nested_offset = 0.0F;
};

// Errors name the tensor in the place of a file.
Nf4State read_state(const Raw& raw) {
  const std::string file = fmt::format("{}: {}", raw.file, printable(raw.tensor.name));
  const std::string text(reinterpret_cast<const char*>(raw.data), raw.tensor.bytes.size());
  const nlohmann::json document = parse_json_file(text, file);
  const JsonNode state(document, file);
  const std::vector<std::size_t> shape = state.list_or_empty("shape", &JsonNode::size);
  require<CheckpointError>(shape.size() == 2,
                           "{}: cannot use shape: found no list of two sizes, expected those of a matrix; {}",
                           file, JsonNode::kDamagedAdvice);
  return {.shape = {shape[0], shape[1]},
          .block = state.at("blocksize").size(),
          .nested_block = state.size_or("nested_blocksize", 256),
          .nested_offset = static_cast<float>(state.number_or("nested_offset", 0.0))};
}

// Blocks are in order of rows, so that each belongs to one row only if rows are whole blocks.
void require_whole_blocks(const Raw& elements, const Nf4State& state) {
  require<CheckpointError>(
      state.shape.size() == 2 * elements.tensor.bytes.size(),
      "{}: {} is {}, expected the bytes of [{}, {}] elements of 4 bits; download the file again",
      elements.file, printable(elements.tensor.name), printable(elements.tensor.shape), state.shape.rows,
      state.shape.columns);
  require<CheckpointError>(state.shape.columns % state.block == 0 && state.block % 2 == 0,
                           "{}: {} has {} input features, expected a multiple of its {} elements that share "
                           "a scale; use the original model with --weights int4",
                           elements.file, printable(elements.tensor.name), state.shape.columns, state.block);
}

// bitsandbytes' kernels contain the table. The files contain it, too.
void require_nf4_values(const QuantizedParts& parts, const std::string& name) {
  const std::byte* const map = parts.floats(name, std::size(kernels::kNf4Values));
  require<CheckpointError>(std::memcmp(map, kernels::kNf4Values, sizeof kernels::kNf4Values) == 0,
                           "{} holds other values than bitsandbytes' nf4, expected the same; use a different "
                           "quantization of the model, or the original with --weights int4",
                           printable(name));
}

// With double quantization, a block's scale is a byte.
void set_scales(const QuantizedParts& parts, const std::string& name, const Nf4State& state,
                QuantizedMatrix& matrix) {
  const std::string of_scales = name + ".absmax";
  const std::size_t blocks = state.shape.size() / state.block;
  const Raw scales = parts.require(of_scales, "U8 F32");
  require_shape(scales, {blocks}, fmt::format("one for {} elements", state.block));
  matrix.groups.scales = scales.data;
  matrix.shared = {of_scales, name + ".quant_map", name + std::string(kNf4State)};
  if (scales.tensor.type.name == "F32") return;
  matrix.groups.nested = {
      .map = parts.floats(name + ".nested_quant_map", 256),
      .maxima = parts.floats(name + ".nested_absmax", (blocks - 1) / state.nested_block + 1),
      .block = state.nested_block,
      .offset = state.nested_offset};
  matrix.shared.push_back(name + ".nested_quant_map");
  matrix.shared.push_back(name + ".nested_absmax");
}

}  // namespace

QuantizedMatrix mxfp4_matrix(const QuantizedParts& parts, const std::string& name) {
  constexpr std::size_t kBlockBytes = 16;
  const Raw blocks = parts.require(name, "U8");
  const std::string of_scales = layer_of(name, "_blocks") + "_scales";
  const Raw scales = parts.require(of_scales, "U8");
  std::vector<std::size_t> rows = blocks.tensor.shape;
  require<CheckpointError>(rows.size() >= 3 && rows.back() == kBlockBytes && !blocks.tensor.bytes.empty(),
                           "{}: {} is {}, expected [output features, blocks, {}]; download the file again",
                           blocks.file, printable(name), printable(rows), kBlockBytes);
  rows.pop_back();
  require_shape(scales, rows, "one for each block");
  const std::size_t groups = rows.back();
  const std::size_t all = scales.tensor.bytes.size();
  return {{.layout = Layout::mxfp4,
           .bits = 4,
           .shape = {all / groups, groups * 2 * kBlockBytes},
           .groups = {.column_block = 2 * kBlockBytes, .groups = groups},
           .scales = scales.data},
          {},
          name,
          {of_scales},
          {}};
}

QuantizedMatrix packed_mxfp4_matrix(const QuantizedParts& parts, const PackedMxfp4& names) {
  constexpr std::size_t kGroup = 32;
  const auto& [of_elements, of_scales] = names;
  const Raw elements = parts.require(of_elements, "U8 I8");
  const Raw scales = parts.require(of_scales, "U8 F8_E8M0");
  require_matrix(elements);
  require_matrix(scales);
  const std::size_t groups = scales.tensor.shape[1];
  require_shape(elements, {scales.tensor.shape[0], groups * kGroup / 2}, "16 bytes for each scale");
  return {{.layout = Layout::mxfp4,
           .bits = 4,
           .shape = {scales.tensor.shape[0], groups * kGroup},
           .groups = {.column_block = kGroup, .groups = groups},
           .scales = scales.data},
          {},
          of_elements,
          {of_scales},
          {}};
}

// ModelOpt multiplies by weight_scale_2 (NVFP4QTensor.dequantize). compressed-tensors divides by
// weight_global_scale (dequantize in quantization/lifecycle/forward.py). vLLM and llama.cpp's converter round
// the reciprocal to float32.
QuantizedMatrix nvfp4_matrix(const QuantizedParts& parts, const std::string& layer) {
  constexpr std::size_t kGroup = 16;
  const std::string of_scales = layer + ".weight_scale";
  const bool is_packed = parts.contains(layer + ".weight_packed");
  const std::string of_elements = layer + (is_packed ? ".weight_packed" : ".weight");
  const Raw elements = parts.require(of_elements, "U8");
  const Raw scales = parts.require(of_scales, "F8_E4M3");
  require_matrix(elements);
  require_matrix(scales);
  const std::size_t groups = scales.tensor.shape[1];
  require_shape(scales, {elements.tensor.shape[0], groups}, "output features, input features / 16");
  require_shape(elements, {scales.tensor.shape[0], groups * kGroup / 2}, "8 bytes for each scale");
  QuantizedMatrix matrix{{.layout = Layout::nvfp4,
                          .bits = 4,
                          .shape = {scales.tensor.shape[0], groups * kGroup},
                          .groups = {.column_block = kGroup, .groups = groups},
                          .scales = scales.data},
                         {},
                         of_elements,
                         {of_scales},
                         {}};
  const std::string of_matrix = layer + (is_packed ? ".weight_global_scale" : ".weight_scale_2");
  if (!is_packed && !parts.contains(of_matrix)) return matrix;
  std::memcpy(&matrix.groups.factor, parts.floats(of_matrix, 1), sizeof(float));
  if (is_packed) matrix.groups.factor = 1.0F / matrix.groups.factor;
  matrix.shared.push_back(of_matrix);
  return matrix;
}

QuantizedMatrix nf4_matrix(const QuantizedParts& parts, const std::string& name) {
  const Nf4State state = read_state(parts.require(name + std::string(kNf4State), "U8"));
  require_whole_blocks(parts.require(name, "U8"), state);
  require_nf4_values(parts, name + ".quant_map");
  QuantizedMatrix matrix{
      {.layout = Layout::nf4,
       .bits = 4,
       .shape = state.shape,
       .groups = {.column_block = state.block, .groups = state.shape.columns / state.block}},
      {},
      name,
      {},
      {}};
  set_scales(parts, name, state, matrix);
  return matrix;
}

}  // namespace tp
