// In-memory types of weights and of the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tp {

// The in-memory type of weights.
enum class WeightType : std::uint8_t {
  f32,
  f16,
  bf16,
  int8,  // groups of 32 along in_features with an f16 scale per group, like GGUF's Q8_0
  int4,  // 4 bits in groups of 32, like GGUF's Q4_0
  // GGUF types with the same names, as stored in files. `--weights auto` keeps them. Weights are never
  // converted to these types.
  q4_k,
  q5_k,
  q6_k,
  q3_k,
  q2_k,
  q4_1,
  q5_0,
  q5_1,
  iq4_nl,
  iq4_xs,
  mxfp4,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq1_s,
  iq1_m,
  tq1_0,
  tq2_0,
  nvfp4,
  // 4-bit weights of AWQ, GPTQ and compressed-tensors: groups of 32, 64, 128 or 256 along in_features, each
  // with a zero point and an f16 or bf16 scale.
  int4_g32,
  int4_g64,
  int4_g128,
  int4_g256,
  int4_g32_bf16,
  int4_g64_bf16,
  int4_g128_bf16,
  int4_g256_bf16,
  // 4 bits without zero points, in groups of 32.
  int4_sym_g32,
  int4_sym_g32_bf16,
  // Elements of 8 or 4 bits, as stored in files, with one scale per block of rows and columns. f8_e4m3 is
  // FP8. nf4 is bitsandbytes' table of 16 values. The two integer types may have zero points, and columns
  // that share a scale need not be adjacent in these types. Products are computed in float32, without
  // rounding activations.
  f8_e4m3,
  int8_scaled,
  int4_scaled,
  nf4,
};
inline constexpr WeightType kLastWeightType = WeightType::nf4;

constexpr std::string_view name_of(WeightType type) {
  constexpr std::string_view kNames[] = {"f32",
                                         "f16",
                                         "bf16",
                                         "int8",
                                         "int4",
                                         "q4_k",
                                         "q5_k",
                                         "q6_k",
                                         "q3_k",
                                         "q2_k",
                                         "q4_1",
                                         "q5_0",
                                         "q5_1",
                                         "iq4_nl",
                                         "iq4_xs",
                                         "mxfp4",
                                         "iq2_xxs",
                                         "iq2_xs",
                                         "iq2_s",
                                         "iq3_xxs",
                                         "iq3_s",
                                         "iq1_s",
                                         "iq1_m",
                                         "tq1_0",
                                         "tq2_0",
                                         "nvfp4",
                                         "int4_g32",
                                         "int4_g64",
                                         "int4_g128",
                                         "int4_g256",
                                         "int4_g32_bf16",
                                         "int4_g64_bf16",
                                         "int4_g128_bf16",
                                         "int4_g256_bf16",
                                         "int4_sym_g32",
                                         "int4_sym_g32_bf16",
                                         "f8_e4m3",
                                         "int8_scaled",
                                         "int4_scaled",
                                         "nf4"};
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<std::size_t>(kLastWeightType) + 1);
  return kNames[static_cast<std::size_t>(type)];
}

// Whether weights of other types can be converted to this type.
constexpr bool is_convertible(WeightType type) { return type < WeightType::q4_k; }

// The convertible type with this name, or none.
constexpr std::optional<WeightType> find_weight_type(std::string_view name) {
  for (const WeightType type :
       {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8, WeightType::int4}) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

// The type of the KV cache.
enum class KvType : std::uint8_t {
  f32,
  bf16,  // rounded to nearest even
  int8,  // with two float32 scales per token and KV head: one for the key, one for the value
};

constexpr std::string_view name_of(KvType type) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "int8"};
  return kNames[static_cast<std::size_t>(type)];
}

// The type with this name, or none.
constexpr std::optional<KvType> find_kv_type(std::string_view name) {
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace tp
