#include "launch/speculate_flag.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace tp {
namespace {

// Takes the text up to the next colon off.
std::string_view take_part(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(':'));
  text.remove_prefix(part.size() == text.size() ? part.size() : part.size() + 1);
  return part;
}

// off, ngram, ngram:TOKENS, ngram:TOKENS:always; nothing if it is something else.
std::optional<SpeculationOptions> parse_speculation(std::string_view text) {
  SpeculationOptions options;
  if (text == "off") return options;
  if (text.ends_with(':') || take_part(text) != "ngram") return std::nullopt;
  options.drafts = DraftKind::ngram;
  if (text.empty()) return options;
  const std::string_view tokens = take_part(text);
  const auto [end, error] = std::from_chars(tokens.data(), tokens.data() + tokens.size(), options.tokens);
  if (error != std::errc() || end != tokens.data() + tokens.size()) return std::nullopt;
  if (options.tokens < 1 || options.tokens > kMaxDraftTokens) return std::nullopt;
  options.always = text == "always";
  return text.empty() || options.always ? std::optional(options) : std::nullopt;
}

}  // namespace

void add_speculate_option(CLI::App& command, SpeculationOptions& options) {
  const auto check = [](const std::string& text) -> std::string {
    if (parse_speculation(text)) return {};
    return fmt::format("expected off, ngram or ngram:N with N from 1 to {}, found {}", kMaxDraftTokens,
                       text.empty() ? "an empty text" : text);
  };
  command
      .add_option_function<std::string>(
          "--speculate",
          [&options](const std::string& text) {
            options = parse_speculation(text).value_or(SpeculationOptions());
          },
          "Verify up to N guessed tokens per step, where that is quicker; the text stays the same. ngram "
          "guesses what followed the last tokens before (N: 8; ngram:N:always guesses even if it is slower)")
      ->check(check)
      ->type_name("off|ngram[:N]")
      ->default_str("off");
}

std::string describe_drafts(const SpeculationCounts& counts) {
  std::string places;
  for (std::size_t i = 0; i < kMaxDraftTokens && counts.drafted[i] > 0; ++i)
    places += fmt::format("{}{}/{}", i == 0 ? "" : " ", counts.accepted[i], counts.drafted[i]);
  return fmt::format("{} of {} draft tokens accepted{}{}\n", counts.accepted_tokens(),
                     counts.drafted_tokens(), places.empty() ? "" : ", by place in the draft ", places);
}

}  // namespace tp
