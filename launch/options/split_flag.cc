#include "launch/options/split_flag.h"

#include "launch/common/option_group.h"
#include "model/files/parse_number.h"
#include "model/files/split_text.h"

#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kMeasured = "measured";

// Parses positive numbers with commas between them. Returns nothing for other texts.
std::optional<std::vector<double>> parse_shares(std::string_view text) {
  std::vector<double> shares;
  for (const std::string_view share : split_text(text, ',')) {
    const auto value = parse_number<double>(share);
    if (!value || !std::isfinite(*value) || *value <= 0.0) return std::nullopt;
    shares.push_back(*value);
  }
  return shares;
}

}  // namespace

void add_split_option(CLI::App& command, std::vector<double>& split, bool* measured) {
  const auto check = [measured](const std::string& text) -> std::string {
    if ((measured != nullptr && text == kMeasured) || parse_shares(text)) return {};
    return fmt::format("expected a number > 0 for every rank, such as 2,1,1{}, found {}",
                       measured == nullptr ? "" : ", or measured", text.empty() ? "an empty text" : text);
  };
  const auto take = [&split, measured](const std::string& text) {
    if (measured != nullptr) *measured = text == kMeasured;
    split = parse_shares(text).value_or(std::vector<double>());
  };
  OptionGroup(command).add(
      "--split", take, "SHARES", CLI::Validator(check, ""),
      std::string("Each rank's share of the model relative to the others, like 2,1,1") +
          (measured == nullptr
               ? ""
               : "; measured: by the memory bandwidth of the hosts, if they differ by more than 10 %") +
          " (default: equal shares)");
}

}  // namespace tp
