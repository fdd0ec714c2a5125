#include "launch/options/attention_flag.h"

#include "launch/common/option_group.h"
#include "model/files/parse_number.h"

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kUsualFeatures = 256;
constexpr std::size_t kMaxFeatures = 65536;

// Returns the number in "favor:512", 0 for "exact", or nothing for other texts.
std::optional<std::size_t> favor_features_of(std::string_view text) {
  constexpr std::string_view kFavor = "favor";
  if (text == "exact") return 0;
  if (!text.starts_with(kFavor)) return std::nullopt;
  text.remove_prefix(kFavor.size());
  if (text.empty()) return kUsualFeatures;
  if (text.front() != ':') return std::nullopt;
  text.remove_prefix(1);
  const auto features = parse_number<std::size_t>(text);
  return features && *features >= 1 && *features <= kMaxFeatures ? features : std::nullopt;
}

std::string check_attention(const std::string& text) {
  if (favor_features_of(text)) return "";
  return fmt::format("expected exact, favor, or favor:N with 1 to {} features, found {}", kMaxFeatures,
                     text.empty() ? "an empty value" : text);
}

}  // namespace

void add_attention_option(CLI::App& command, std::size_t& favor_features) {
  OptionGroup(command)
      .add(
          "--attention",
          [&favor_features](const std::string& text) {
            favor_features = favor_features_of(text).value_or(0);
          },
          "KIND", CLI::Validator(check_attention, ""),
          "exact, or favor[:N]: approximate attention by sums of N random features (256) instead of a cache; "
          "results differ from the model's")
      ->default_str("exact");
}

}  // namespace tp
