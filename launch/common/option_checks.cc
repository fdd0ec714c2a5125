#include "launch/common/option_checks.h"

#include "model/files/parse_number.h"
#include "model/files/similar_name.h"
#include "model/quantize/type_choice.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/ranges.h>

namespace tp {
namespace {

// All types, in their order.
const std::vector<WeightType> kWeightTypes = [] {
  std::vector<WeightType> types;
  for (int type = 0; type <= static_cast<int>(kLastWeightType); ++type)
    types.push_back(static_cast<WeightType>(type));
  return types;
}();

std::string expected(const std::string& what, const std::string& found) {
  return fmt::format("expected {}, found {}", what, found.empty() ? "an empty text" : found);
}

// Other projects' names of types to which weights can be converted.
struct OtherName {
  std::string_view theirs;
  std::string_view ours;
};

constexpr OtherName kOtherNames[] = {
    {"q8_0", "int8"},     {"q4_0", "int4"}, {"8bit", "int8"}, {"4bit", "int4"},   {"fp32", "f32"},
    {"float32", "f32"},   {"float", "f32"}, {"fp16", "f16"},  {"float16", "f16"}, {"half", "f16"},
    {"bfloat16", "bf16"}, {"i8", "int8"},   {"w8a8", "int8"},
};

// Formats that only files have.
constexpr std::string_view kFormats[] = {"fp8", "nf4",  "fp4", "awq",          "gptq",
                                         "bnb", "gguf", "hqq", "bitsandbytes", "compressed-tensors"};

bool contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

bool is_held_type(const std::string& name) {
  return std::ranges::any_of(kWeightTypes, [&](WeightType type) { return name_of(type) == name; });
}

// Whether it looks like one of GGUF's names, such as q5_k_s.
bool is_name_of_gguf(std::string_view name) {
  if (name.starts_with('i')) name.remove_prefix(1);
  return name.size() > 1 && name[0] == 'q' && name[1] >= '1' && name[1] <= '9';
}

// Advice instead of `--weights name`; empty for a name that nobody has.
std::string advice_about_type(const std::string& name) {
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto* const other = std::ranges::find(kOtherNames, lower, &OtherName::theirs);
  if (other != std::end(kOtherNames)) return fmt::format("here it is {}", other->ours);
  const std::vector<std::string> quantized = TypeChoice::names();
  const std::string kept =
      is_held_type(lower) ? fmt::format("files that store {} weights keep it with auto", lower) : "";
  if (contains(quantized, lower)) {
    return fmt::format("{}{}`tp-infer quantize --weights {}` writes such files", kept,
                       kept.empty() ? "" : ", and ", lower);
  }
  if (!kept.empty()) return kept;
  if (is_name_of_gguf(lower)) {
    const std::string similar = similar_name(lower, quantized);
    if (similar.empty()) return "";
    return fmt::format("`tp-infer quantize --weights {}` writes a file of a similar type", similar);
  }
  const std::string_view family = std::string_view(lower).substr(0, lower.find('_'));
  return contains(kFormats, family) ? "auto keeps the format that the model's files have" : "";
}

}  // namespace

CLI::Validator whole_number(std::uint64_t min, std::uint64_t max) {
  const std::string range = fmt::format("from {} to {}", min, max);
  const auto check = [=](std::string& text) -> std::string {
    const auto value = parse_number<std::uint64_t>(text);
    return value && *value >= min && *value <= max ? "" : expected("a whole number " + range, text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator number() {
  const auto check = [](std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    return value && std::abs(*value) <= std::numeric_limits<float>::max() ? "" : expected("a number", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator amount(double max) {
  const auto check = [max](std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    return value && *value > 0.0 && *value <= max
               ? ""
               : expected(fmt::format("a number above 0, up to {}", max), text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator gigabytes() {
  const auto check = [](std::string& text) -> std::string {
    std::string plain = text;
    for (const std::string_view unit : {"B", "G"})
      if (plain.ends_with(unit)) plain.pop_back();
    const auto value = parse_number<double>(plain);
    if (!value || *value <= 0.0 || *value > kMaxGigabytes)
      return expected(fmt::format("a number of gigabytes above 0, up to {}", kMaxGigabytes), text);
    text = plain;
    return {};
  };
  return CLI::Validator(check, "");
}

CLI::Validator not_empty(std::string what) {
  const auto check = [what = std::move(what)](std::string& text) -> std::string {
    return text.empty() ? fmt::format("expected {}, found an empty value; is a variable unset?", what) : "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return {};
    const std::string similar = similar_name(text, words);
    return expected(fmt::format("one of {}", fmt::join(words, ", ")), text) +
           (similar.empty() ? "" : fmt::format("; did you mean {}?", similar));
  };
  return CLI::Validator(check, "");
}

CLI::Validator weight_type() {
  const std::vector<std::string> names = {"auto", "f32", "f16", "bf16", "int8", "int4"};
  const auto check = [names, known = one_of(names)](std::string& text) -> std::string {
    const std::string advice = contains(names, text) ? "" : advice_about_type(text);
    return advice.empty()
               ? known(text)
               : expected(fmt::format("one of {}, to which weights can be converted", fmt::join(names, ", ")),
                          text) +
                     "; " + advice;
  };
  return CLI::Validator(check, "");
}

CLI::Validator generated_weight_type() {
  std::vector<std::string> names = {"auto"};
  for (const WeightType type : kWeightTypes) names.emplace_back(name_of(type));
  return one_of(std::move(names));
}

std::optional<WeightType> find_generated_type(const std::string& name) {
  const auto found = std::ranges::find(kWeightTypes, name, [](WeightType type) { return name_of(type); });
  return found == kWeightTypes.end() ? std::nullopt : std::optional(*found);
}

}  // namespace tp
