#include "launch/common/option_checks.h"

#include "model/files/parse_number.h"
#include "model/files/similar_name.h"
#include "model/weights/gguf/gguf_quantize.h"
#include "model/weights/gguf/gguf_type.h"

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

bool is_written_by_quantize(std::string type) {
  for (char& c : type) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const GgufType* const stored = find_gguf_type(std::string_view(type));
  return stored != nullptr && can_quantize(*stored);
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  const auto check = [=](std::string& text) -> std::string {
    const auto value = parse_number<std::uint64_t>(text);
    return value && *value >= least && *value <= most ? "" : expected("a whole number " + range, text);
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

CLI::Validator amount(double most) {
  const auto check = [most](std::string& text) -> std::string {
    const auto value = parse_number<double>(text);
    return value && *value > 0.0 && *value <= most
               ? ""
               : expected(fmt::format("a number above 0, up to {}", most), text);
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
  const CLI::Validator known = one_of({"auto", "f32", "f16", "bf16", "int8", "int4"});
  const auto check = [known](std::string& text) -> std::string {
    for (WeightType type = WeightType::q4_k; type <= kLastWeightType;
         type = static_cast<WeightType>(static_cast<int>(type) + 1)) {
      if (text == name_of(type)) {
        return fmt::format(
            "expected a type to which weights can be converted, found {}; files that store "
            "{} weights keep it with auto{}",
            text, text, is_written_by_quantize(text) ? ", and `tp-infer quantize` writes such files" : "");
      }
    }
    return known(text);
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
