// Small models whose projections are stored in the formats of quantized checkpoints, and float32 models with
// equal values.
#pragma once

#include "model/config/config.h"
#include "model/files/json_node.h"
#include "model/files/mapped_file.h"
#include "model/weights/safetensors/safetensors_header.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tests/reference/four_bit_floats.h"
#include "tests/reference/group_quantized.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp::test {

using reference::GroupFormat;
using reference::GroupQuantized;

// A model in float32.
struct Plain {
  nlohmann::json json;  // config.json
  CheckpointConfig config;
  std::vector<TestTensor> tensors;
  std::vector<TokenId> prompt;
};

inline Plain plain_fixture(const std::string& name) {
  const reference::Fixture fixture = reference::fixture(name);
  Plain plain{
      read_json_file(fixture.folder / "config.json"), load_config(fixture.folder), {}, fixture.prompt};
  const MappedFile file(fixture.folder / "model.safetensors");
  for (const StoredTensor& tensor : parse_safetensors_header(file.bytes(), file.name()).tensors) {
    const auto* const data = reinterpret_cast<const char*>(file.bytes().data());
    plain.tensors.push_back({tensor.name, std::string(tensor.type.name), tensor.shape,
                             std::string(data + tensor.bytes.begin, data + tensor.bytes.end)});
  }
  return plain;
}

// The feed-forward layer's columns have three groups of 128, and two ranks cut one in the middle. The output
// projection's columns have two groups, and three ranks cut both.
inline Plain plain_random() {
  nlohmann::json config = small_config();
  config.update({{"hidden_size", 256}, {"intermediate_size", 384}, {"num_attention_heads", 8}});
  Plain plain{config, parse(config), {}, {}};
  reference::Random random(5);
  const auto add = [&](const std::string& name, std::vector<std::size_t> shape, float mean, float range) {
    std::vector<float> values(shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    for (float& value : values) value = mean + random.number() * range;
    plain.tensors.push_back({name, "F32", std::move(shape), bytes_of(values)});
  };
  add("model.embed_tokens.weight", {320, 256}, 0, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    add(layer + "input_layernorm.weight", {256}, 1, 0.1F);
    add(layer + "post_attention_layernorm.weight", {256}, 1, 0.1F);
    add(layer + "self_attn.q_proj.weight", {256, 256}, 0, 0.1F);
    add(layer + "self_attn.k_proj.weight", {128, 256}, 0, 0.1F);
    add(layer + "self_attn.v_proj.weight", {128, 256}, 0, 0.1F);
    add(layer + "self_attn.o_proj.weight", {256, 256}, 0, 0.1F);
    add(layer + "mlp.gate_proj.weight", {384, 256}, 0, 0.1F);
    add(layer + "mlp.up_proj.weight", {384, 256}, 0, 0.1F);
    add(layer + "mlp.down_proj.weight", {256, 384}, 0, 0.1F);
  }
  add("model.norm.weight", {256}, 1, 0.1F);
  add("lm_head.weight", {320, 256}, 0, 0.1F);
  for (std::size_t i = 0; i < 21; ++i) plain.prompt.push_back(static_cast<TokenId>(random.integer(0, 319)));
  return plain;
}

// The model with quantized projections, and the float32 model with equal values.
struct Checkpoints {
  TemporaryDirectory quantized;
  TemporaryDirectory dequantized;
  double bits = 0.0;  // mean bits of a quantized element in the file
};

enum class Order : std::uint8_t {
  plain,
  by_activations,  // the input's order: equal for all matrices of the input
  of_matrices      // a different order for each matrix
};

// FP8 with a scale for blocks of this many rows and columns, at most the matrix.
struct F8Blocks {
  std::size_t rows;
  std::size_t columns;
  const char* scale_type;
};

struct QuantizedCase {
  const char* fixture;  // or null for plain_random
  GroupFormat format;
  std::size_t group;  // columns; 0: a whole row
  bool bf16_scales;
  unsigned bits = 4;
  Order order = Order::plain;
  std::optional<F8Blocks> f8{};                       // replaces the format
  std::optional<reference::FourBitFormat> floats4{};  // replaces the format
};

constexpr QuantizedCase four_bit_floats(const char* fixture, reference::FourBitFormat format,
                                        std::size_t group) {
  return {fixture, GroupFormat::awq, group, false, 4, Order::plain, {}, format};
}

struct Quantized {
  std::vector<TestTensor> parts;
  std::vector<float> values;
};

// Every group once, in any order.
inline std::vector<std::size_t> shuffled_groups(std::size_t columns, std::size_t group, std::size_t seed) {
  reference::Random random(seed);
  std::vector<std::size_t> order;
  for (std::size_t column = 0; column < columns; ++column) order.push_back(column / group);
  for (std::size_t i = columns - 1; i > 0; --i) std::swap(order[i], order[random.integer(0, i)]);
  return order;
}

inline Quantized quantized(const QuantizedCase& of, const std::string& layer,
                           const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  if (of.floats4) {
    const reference::FourBitFloats weight(values, rows, columns, *of.floats4);
    return {weight.tensors(layer), weight.values()};
  }
  if (of.f8) {
    const std::size_t block_rows = std::min(of.f8->rows, rows);
    const std::size_t block_columns = std::min(of.f8->columns, columns);
    const reference::F8Quantized weight(values, rows, columns, block_rows, block_columns, of.f8->scale_type);
    return {
        weight.tensors(layer, of.f8->rows == 1 ? ".weight_scale" : ".weight_scale_inv",
                       {(rows + block_rows - 1) / block_rows, (columns + block_columns - 1) / block_columns}),
        weight.values()};
  }
  const std::size_t group = of.group == 0 ? columns : of.group;
  const bool is_symmetric = of.format == GroupFormat::packed;
  if (of.order == Order::plain) {
    const GroupQuantized weight(values, rows, columns, group, is_symmetric, of.bf16_scales, of.bits);
    return {weight.tensors(layer, of.format), weight.values()};
  }
  const std::size_t seed = of.order == Order::by_activations ? columns : std::hash<std::string>{}(layer);
  const GroupQuantized weight(values, rows, columns, shuffled_groups(columns, group, seed), is_symmetric,
                              of.bf16_scales, of.bits);
  return {weight.tensors(layer, of.format), weight.values()};
}

inline nlohmann::json config_of(const QuantizedCase& of) {
  if (of.floats4) return reference::quantization_config(*of.floats4);
  if (!of.f8) return reference::quantization_config(of.format, of.group, of.bits);
  return {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {of.f8->rows, of.f8->columns}}};
}

// The bytes of elements, scales and zero points. The scales of nf4's double quantization count as float32.
inline std::size_t counted_bytes(const TestTensor& part) {
  for (const char* const ending : {"g_idx", "weight_shape", "_map", "nested_absmax", "__nf4", "_scale_2",
                                   "global_scale", "input_scale"}) {
    if (part.name.ends_with(ending)) return 0;
  }
  const bool is_nested = part.name.ends_with(".absmax") && part.dtype == "U8";
  return part.data.size() * (is_nested ? 4 : 1);
}

// `case_of`: the case of a layer with this name, or null if all layers have `of`.
inline void convert(const Plain& plain, const QuantizedCase& of, Checkpoints& out,
                    const std::function<QuantizedCase(const std::string& layer)>& case_of = nullptr) {
  std::vector<TestTensor> stored;
  std::vector<TestTensor> dequantized;
  std::size_t elements = 0;
  std::size_t bytes = 0;
  for (const TestTensor& tensor : plain.tensors) {
    if (!tensor.name.ends_with("_proj.weight")) {
      stored.push_back(tensor);
      dequantized.push_back(tensor);
      continue;
    }
    std::vector<float> values(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    const std::size_t columns = tensor.shape[1];
    const std::string layer = tensor.name.substr(0, tensor.name.size() - 7);
    Quantized weight = quantized(case_of ? case_of(layer) : of, layer, values, tensor.shape[0], columns);
    for (TestTensor& part : weight.parts) {
      bytes += counted_bytes(part);
      stored.push_back(std::move(part));
    }
    elements += values.size();
    dequantized.push_back({tensor.name, "F32", tensor.shape, bytes_of(weight.values)});
  }
  out.bits = 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
  nlohmann::json config = plain.json;
  config["quantization_config"] = config_of(of);
  out.quantized.write("model.safetensors", safetensors_file(stored));
  out.quantized.write("config.json", config.dump());
  out.dequantized.write("model.safetensors", safetensors_file(dequantized));
}

}  // namespace tp::test
