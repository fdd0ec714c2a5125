#include "model/weights/quantized/layer_patterns.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tp {
namespace {

constexpr std::string_view kExpression = "re:";

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

bool matches_name(const std::string& pattern, const std::string& layer) {
  if (pattern.find('*') != std::string::npos)
    return matches_wildcards(pattern, layer) || matches_wildcards(pattern + ".*", layer);
  return ("." + layer + ".").find("." + pattern + ".") != std::string::npos;
}

[[noreturn]] void refuse_pattern(const std::string& file, const RegexError& error) {
  throw_error<ConfigError>(
      "{}: quantization_config: cannot tell which layers are quantized: expected regular expressions of "
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
    } else {
      names_.push_back(pattern);
    }
  }
}

bool LayerPatterns::match(const std::string& layer) const {
  if (has_all_) return true;
  if (std::ranges::any_of(names_, [&](const std::string& name) { return matches_name(name, layer); }))
    return true;
  try {
    return std::ranges::any_of(expressions_, [&](const Regex& regex) { return regex.begins(layer); });
  } catch (const RegexError& error) {
    refuse_pattern(file_, error);
  }
}

}  // namespace tp
