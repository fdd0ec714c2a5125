#include "tests/reference/four_bit_floats.h"

#include "tests/reference/group_quantized.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace tp::reference {
namespace {

using test::bytes_of;
using test::TestTensor;

constexpr std::size_t kNested = 256;  // groups of nf4 whose scales share a maximum

// OCP's E2M1: the highest bit is the sign.
constexpr float kE2m1[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

template <class Level>
std::uint8_t nearest(float value, std::size_t count, const Level& level) {
  std::size_t best = 0;
  for (std::size_t place = 1; place < count; ++place) {
    if (std::abs(level(place) - value) < std::abs(level(best) - value)) best = place;
  }
  return static_cast<std::uint8_t>(best);
}

// Packs two elements into each byte.
std::string packed(const std::vector<std::uint8_t>& places, bool first_is_high) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < places.size(); i += 2) {
    const int first = places[i];
    const int second = places[i + 1];
    bytes.push_back(static_cast<std::uint8_t>(first_is_high ? first * 16 + second : second * 16 + first));
  }
  return bytes_of(bytes);
}

}  // namespace

std::string name_of(FourBitFormat format) {
  constexpr const char* kNames[] = {"nvfp4", "nvfp4_packed", "nf4", "nf4_double"};
  return kNames[static_cast<std::size_t>(format)];
}

nlohmann::json quantization_config(FourBitFormat format) {
  if (format == FourBitFormat::modelopt)
    return {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", {"lm_head"}}};
  if (format == FourBitFormat::packed) {
    return {{"quant_method", "compressed-tensors"},
            {"format", "nvfp4-pack-quantized"},
            {"ignore", {"lm_head"}},
            {"config_groups",
             {{"group_0",
               {{"targets", {"Linear"}},
                {"weights",
                 {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}}}}}}}};
  }
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", format == FourBitFormat::nf4_double},
          {"llm_int8_skip_modules", {"lm_head"}}};
}

FourBitFloats::FourBitFloats(const std::vector<float>& values, std::size_t out, std::size_t in,
                             FourBitFormat format)
    : out_(out), in_(in), format_(format) {
  std::vector<float> largest(values.size() / group());
  for (std::size_t i = 0; i < values.size(); ++i)
    largest[i / group()] = std::max(largest[i / group()], std::abs(values[i]));
  is_nf4() ? set_nf4_scales(largest) : set_nvfp4_scales(largest);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float of_group = scale(i / group());
    places_.push_back(nearest(of_group == 0.0F ? 0.0F : values[i] / of_group, 16,
                              [&](std::size_t place) { return level(place); }));
  }
}

void FourBitFloats::set_nvfp4_scales(const std::vector<float>& largest) {
  const float scale = *std::max_element(largest.begin(), largest.end()) / (6 * 448);
  of_matrix_ = format_ == FourBitFormat::packed ? 1.0F / scale : scale;
  for (const float of_group : largest) bytes_.push_back(nearest_f8(of_group / 6 / scale));
}

// The map's values are dense near zero, like those of bitsandbytes.
void FourBitFloats::set_nf4_scales(const std::vector<float>& largest) {
  scales_ = largest;
  if (format_ == FourBitFormat::nf4) return;
  offset_ = std::accumulate(largest.begin(), largest.end(), 0.0F) / static_cast<float>(largest.size());
  for (int i = 0; i < 256; ++i) {
    const float even = static_cast<float>(i - 127) / 128.0F;
    map_.push_back(even * even * even);
  }
  maxima_.resize((largest.size() + kNested - 1) / kNested);
  for (std::size_t i = 0; i < largest.size(); ++i)
    maxima_[i / kNested] = std::max(maxima_[i / kNested], std::abs(largest[i] - offset_));
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const float wanted = (largest[i] - offset_) / maxima_[i / kNested];
    bytes_.push_back(nearest(wanted, 256, [&](std::size_t place) { return map_[place]; }));
  }
}

float FourBitFloats::level(std::size_t place) const {
  return is_nf4() ? kNf4Levels[place] : place < 8 ? kE2m1[place] : -kE2m1[place - 8];
}

// Returns the scale. For NVFP4's elements, it is not rounded.
float FourBitFloats::scale(std::size_t group) const {
  if (format_ == FourBitFormat::modelopt) return value_of_f8(bytes_[group]) * of_matrix_;
  if (format_ == FourBitFormat::packed) return value_of_f8(bytes_[group]) / of_matrix_;
  if (format_ == FourBitFormat::nf4) return scales_[group];
  const float product = map_[bytes_[group]] * maxima_[group / kNested];
  return product + offset_;
}

// nf4's products are rounded once. So are NVFP4's, whose exact product has less than 53 bits.
float FourBitFloats::value(std::size_t row, std::size_t column) const {
  const std::size_t index = row * in_ + column;
  const std::size_t of_group = index / group();
  if (is_nf4()) return level(places_[index]) * scale(of_group);
  const float factor = format_ == FourBitFormat::packed ? 1.0F / of_matrix_ : of_matrix_;
  return static_cast<float>(static_cast<double>(level(places_[index])) * value_of_f8(bytes_[of_group]) *
                            factor);
}

std::vector<float> FourBitFloats::values() const {
  std::vector<float> all;
  for (std::size_t row = 0; row < out_; ++row) {
    for (std::size_t column = 0; column < in_; ++column) all.push_back(value(row, column));
  }
  return all;
}

std::vector<TestTensor> FourBitFloats::tensors(const std::string& layer) const {
  return is_nf4() ? nf4_tensors(layer + ".weight") : nvfp4_tensors(layer);
}

std::vector<TestTensor> FourBitFloats::nvfp4_tensors(const std::string& layer) const {
  const bool is_packed = format_ == FourBitFormat::packed;
  return {{layer + (is_packed ? ".weight_packed" : ".weight"), "U8", {out_, in_ / 2}, packed(places_, false)},
          {layer + ".weight_scale", "F8_E4M3", {out_, in_ / 16}, bytes_of(bytes_)},
          {layer + (is_packed ? ".weight_global_scale" : ".weight_scale_2"), "F32",
           is_packed ? std::vector<std::size_t>{1} : std::vector<std::size_t>{},
           bytes_of(std::vector<float>{of_matrix_})},
          {layer + (is_packed ? ".input_global_scale" : ".input_scale"), "F32", {1}, "1234"}};
}

std::vector<TestTensor> FourBitFloats::nf4_tensors(const std::string& name) const {
  nlohmann::json state = {
      {"quant_type", "nf4"}, {"blocksize", 64}, {"dtype", "bfloat16"}, {"shape", {out_, in_}}};
  std::vector<TestTensor> tensors = {
      {name, "U8", {places_.size() / 2, 1}, packed(places_, true)},
      {name + ".quant_map",
       "F32",
       {16},
       bytes_of(std::vector<float>(std::begin(kNf4Levels), std::end(kNf4Levels)))}};
  if (format_ == FourBitFormat::nf4) {
    tensors.push_back({name + ".absmax", "F32", {scales_.size()}, bytes_of(scales_)});
  } else {
    state.update({{"nested_blocksize", kNested}, {"nested_dtype", "float32"}, {"nested_offset", offset_}});
    tensors.push_back({name + ".absmax", "U8", {bytes_.size()}, bytes_of(bytes_)});
    tensors.push_back({name + ".nested_absmax", "F32", {maxima_.size()}, bytes_of(maxima_)});
    tensors.push_back({name + ".nested_quant_map", "F32", {256}, bytes_of(map_)});
  }
  const std::string text = state.dump();
  tensors.push_back({name + ".quant_state.bitsandbytes__nf4", "U8", {text.size()}, text});
  return tensors;
}

}  // namespace tp::reference
