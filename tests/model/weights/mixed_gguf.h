// Small Llama models in GGUF files whose matrices are random blocks of several types, and float32 files with
// equal values.
#pragma once

#include "model/kernels/half.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/random_gguf_rows.h"
#include "tests/reference/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace tp::test {

// Two ranks cut a super-block of the columns of ffn_down, four cut one between blocks of 64, and eight cut
// blocks.
inline constexpr std::size_t kMixedHidden = 256;
inline constexpr std::size_t kMixedIntermediate = 768;
inline constexpr std::size_t kMixedVocab = 320;
inline constexpr std::size_t kMixedLayers = 2;

class MixedGguf {
 public:
  // The matrices use the types alternately.
  explicit MixedGguf(std::span<const std::string_view> types) : types_(types.begin(), types.end()) {
    for (GgufBuilder* const builder : {&stored_, &plain_}) {
      builder->text("general.architecture", "llama").whole("llama.block_count", kMixedLayers);
      builder->whole("llama.context_length", 256).whole("llama.embedding_length", kMixedHidden);
      builder->whole("llama.feed_forward_length", kMixedIntermediate).whole("llama.attention.head_count", 8);
      builder->whole("llama.attention.head_count_kv", 4);
      builder->value("llama.attention.layer_norm_rms_epsilon", GgufKind::f32, le(1e-5F));
    }
    matrix("token_embd.weight", kMixedVocab, kMixedHidden);
    for (std::size_t layer = 0; layer < kMixedLayers; ++layer) add_layer(fmt::format("blk.{}.", layer));
    norm("output_norm.weight");
    matrix("output.weight", kMixedVocab, kMixedHidden);
  }

  std::string stored() const { return stored_.file(); }
  // All values in float32, by the formats' definitions.
  std::string plain() const { return plain_.file(); }

 private:
  void add_layer(const std::string& block) {
    norm(block + "attn_norm.weight");
    matrix(block + "attn_q.weight", kMixedHidden, kMixedHidden);
    matrix(block + "attn_k.weight", kMixedHidden / 2, kMixedHidden);
    matrix(block + "attn_v.weight", kMixedHidden / 2, kMixedHidden);
    matrix(block + "attn_output.weight", kMixedHidden, kMixedHidden);
    norm(block + "ffn_norm.weight");
    matrix(block + "ffn_gate.weight", kMixedIntermediate, kMixedHidden);
    matrix(block + "ffn_up.weight", kMixedIntermediate, kMixedHidden);
    matrix(block + "ffn_down.weight", kMixedHidden, kMixedIntermediate);
  }

  void norm(const std::string& name) {
    const std::string ones = bytes_of(std::vector<float>(kMixedHidden, 1.0F));
    stored_.tensor(name, {kMixedHidden}, "F32", ones);
    plain_.tensor(name, {kMixedHidden}, "F32", ones);
  }

  // The values' mean square is about 1 / columns. The matrix repeats a few blocks, because computing their
  // values takes long. Rows differ, because the number of blocks is prime.
  void matrix(const std::string& name, std::size_t rows, std::size_t columns) {
    constexpr std::size_t kBlocks = 61;
    const GgufType& type = *find_gguf_type(types_[next_++ % types_.size()]);
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < kBlocks; ++i) blocks.push_back(random_block(type, columns));
    std::string bytes;
    std::vector<float> values;
    for (std::size_t i = 0; i < rows * columns / type.block_elements; ++i) {
      const Block& block = blocks[i % kBlocks];
      bytes.append(block.bytes.begin(), block.bytes.end());
      values.insert(values.end(), block.values.begin(), block.values.end());
    }
    stored_.tensor(name, {rows, columns}, type.name, bytes);
    if (type.name == "NVFP4") multiply_by_factor(name, columns, values);
    plain_.tensor(name, {rows, columns}, "F32", bytes_of(values));
  }

  // Blocks have no f16 number. Their factor is a tensor.
  void multiply_by_factor(const std::string& name, std::size_t columns, std::vector<float>& values) {
    double squares = 0.0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    const double mean = squares / static_cast<double>(values.size());
    const auto factor = static_cast<float>(1.0 / std::sqrt(mean * static_cast<double>(columns)));
    for (float& value : values) value *= factor;
    const std::string layer = name.substr(0, name.size() - std::string_view(".weight").size());
    stored_.tensor(layer + ".scale", {1}, "F32", le(factor));
    stored_.tensor(layer + ".input_scale", {1}, "F32", le(1.0F));
  }

  struct Block {
    std::vector<std::uint8_t> bytes;
    std::vector<float> values;
  };

  Block random_block(const GgufType& type, std::size_t columns) {
    Block block{std::vector<std::uint8_t>(type.block_bytes), {}};
    for (std::uint8_t& byte : block.bytes) byte = static_cast<std::uint8_t>(random_());
    if (type.name == "NVFP4") {  // scales of similar size, as models have them
      for (std::size_t i = 0; i < 4; ++i)
        block.bytes[i] = static_cast<std::uint8_t>(0x58 | block.bytes[i] % 16);
    }
    set_halves(type, block.bytes.data(), [] { return kernels::float_to_f16(1.0F); });
    double squares = 0.0;
    for (const float value : values_of(type, block.bytes)) squares += static_cast<double>(value) * value;
    const double root = std::sqrt(squares / static_cast<double>(type.block_elements));
    const auto scale = static_cast<float>(1.0 / (root * std::sqrt(static_cast<double>(columns))));
    set_halves(type, block.bytes.data(), [scale] { return kernels::float_to_f16(scale); });
    block.values = values_of(type, block.bytes);
    return block;
  }

  static std::vector<float> values_of(const GgufType& type, const std::vector<std::uint8_t>& block) {
    std::vector<float> values(type.block_elements);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = reference::gguf_element(type.name, block.data(), i);
    return values;
  }

  std::vector<std::string_view> types_;
  std::size_t next_ = 0;
  std::mt19937 random_{9};
  GgufBuilder stored_;
  GgufBuilder plain_;
};

}  // namespace tp::test
