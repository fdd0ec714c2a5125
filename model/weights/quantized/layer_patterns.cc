#include "model/weights/quantized/layer_patterns.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tp {
namespace {

constexpr std::string_view kExpression = "re:";

// Multimodal models have this part in names, after "model." or before it. Lists may have the other order.
constexpr std::string_view kPart = "language_model.";

std::string without_part(std::string name) {
  if (const std::size_t place = name.find(kPart); place != name.npos) name.erase(place, kPart.size());
  return name;
}

// A layer's names in both orders, and without the part.
std::vector<std::string> names_of(const std::string& layer) {
  const std::string plain = without_part(layer);
  if (plain == layer) return {layer};
  constexpr std::string_view kModel = "model.";
  std::vector<std::string> names = {plain, std::string(kPart) + plain};
  if (plain.starts_with(kModel))
    names.push_back(fmt::format("{}{}{}", kModel, kPart, plain.substr(kModel.size())));
  return names;
}

// After a mismatch, it is enough to let the last wildcard match one more character.
bool matches_wildcards(std::string_view pattern, std::string_view name) {
  std::size_t in_pattern = 0;
  std::size_t in_name = 0;
  std::size_t after_wildcard = pattern.npos;  // place in the pattern after the last wildcard
  std::size_t skipped_to = 0;                 // place in the name up to which the last wildcard matches
  while (in_name < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      after_wildcard = ++in_pattern;
      skipped_to = in_name;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[in_name]) {
      ++in_pattern;
      ++in_name;
    } else {
      if (after_wildcard == pattern.npos) return false;
      in_pattern = after_wildcard;
      in_name = ++skipped_to;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == pattern.npos;
}

// Whether the set has the layer's name, or a part of the name between dots. A list may name all experts of
// all layers.
bool has_part(const std::unordered_set<std::string>& names, const std::string& layer) {
  if (names.empty()) return false;
  for (std::size_t begin = 0; begin < layer.size(); begin = layer.find('.', begin) + 1) {
    for (std::size_t end = begin; end != layer.npos;) {
      end = layer.find('.', end + 1);
      if (names.contains(layer.substr(begin, end - begin))) return true;
    }
    if (layer.find('.', begin) == layer.npos) return false;
  }
  return false;
}

[[noreturn]] void refuse_pattern(const std::string& file, const RegexError& error) {
  throw_error<ConfigError>(
      "{}: quantization_config: cannot determine which layers are quantized: expected regular expressions of "
      "Python, found: {}; correct the file",
      file, printable(error.what()));
}

}  // namespace

LayerPatterns::LayerPatterns(const std::vector<std::string>& patterns, std::string file)
    : file_(std::move(file)) {
  for (const std::string& pattern : patterns) {
    if (pattern == "Linear") {
      has_all_ = true;
    } else if (pattern.starts_with(kExpression)) {
      try {
        expressions_.push_back(Regex::from_python(std::string_view(pattern).substr(kExpression.size())));
      } catch (const RegexError& error) {
        refuse_pattern(file_, error);
      }
    } else if (pattern.find('*') != pattern.npos) {
      wildcards_.push_back(pattern);
    } else {
      names_.insert(without_part(pattern));
    }
  }
}

bool LayerPatterns::match(const std::string& layer) const {
  if (has_all_ || has_part(names_, without_part(layer))) return true;
  const std::vector<std::string> names = names_of(layer);
  const auto matches_any = [&](const auto& patterns, const auto& matches) {
    return std::ranges::any_of(patterns, [&](const auto& pattern) {
      return std::ranges::any_of(names, [&](const std::string& name) { return matches(pattern, name); });
    });
  };
  const auto matches = [](const std::string& pattern, const std::string& name) {
    return matches_wildcards(pattern, name) || matches_wildcards(pattern + ".*", name);
  };
  if (matches_any(wildcards_, matches)) return true;
  try {
    return matches_any(expressions_,
                       [](const Regex& regex, const std::string& name) { return regex.begins(name); });
  } catch (const RegexError& error) {
    refuse_pattern(file_, error);
  }
}

}  // namespace tp
