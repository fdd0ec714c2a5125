#include "launch/options/speculate_flag.h"

#include "launch/common/option_group.h"
#include "launch/options/model_path.h"
#include "model/files/parse_number.h"
#include "tp/error.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kAlways = ":always";

// Removes :TOKENS or :TOKENS:always from the end, if present. Returns false for an invalid number.
bool take_tokens(std::string_view& text, SpeculationOptions& options) {
  std::string_view rest = text;
  options.always = rest.ends_with(kAlways);
  if (options.always) rest.remove_suffix(kAlways.size());
  const std::size_t colon = rest.rfind(':');
  const auto tokens = colon == rest.npos ? std::nullopt : parse_number<std::size_t>(rest.substr(colon + 1));
  if (!tokens) return !options.always;
  options.tokens = *tokens;
  text = rest.substr(0, colon);
  return options.tokens >= 1 && options.tokens <= kMaxDraftTokens;
}

// Parses off, ngram, draft:DIR, mtp, auto or auto:DIR, optionally followed by :TOKENS or :TOKENS:always.
// Returns nothing for other texts.
std::optional<SpeculationOptions> parse_speculation(std::string_view text) {
  SpeculationOptions options;
  if (text == "off") return options;
  if (!take_tokens(text, options) || text.ends_with(':')) return std::nullopt;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = text.substr(0, colon);
  if (colon < text.size()) options.model = text.substr(colon + 1);
  if (kind == "ngram" && options.model.empty())
    options.drafts = DraftKind::ngram;
  else if (kind == "mtp" && options.model.empty())
    options.drafts = DraftKind::mtp;
  else if (kind == "draft" && !options.model.empty())
    options.drafts = DraftKind::model;
  else if (kind == "auto")
    options.drafts = DraftKind::automatic;
  else
    return std::nullopt;
  return options;
}

// Sets the draft model of --speculate auto, or drafts only with this model.
void set_draft_model(const std::string& folder, SpeculationOptions& options) {
  const bool is_other = options.drafts == DraftKind::ngram || options.drafts == DraftKind::mtp;
  if (is_other || !options.model.empty())
    throw CLI::ValidationError(
        "--draft-model",
        fmt::format("expected --speculate auto with it, or no --speculate, found another {}; "
                    "leave one of the two out",
                    is_other ? "kind of drafts" : "draft model"));
  options.model = folder;
  if (options.drafts == DraftKind::none) options.drafts = DraftKind::model;
}

}  // namespace

void add_speculate_option(CLI::App& command, SpeculationOptions& options) {
  const OptionGroup group(command);
  const auto check = [](const std::string& text) -> std::string {
    if (parse_speculation(text)) return {};
    return fmt::format(
        "expected off, ngram, draft:DIR, mtp, auto or auto:DIR, optionally followed by :N or :N:always with "
        "N from 1 to {}, found {}; change it, or leave it out",
        kMaxDraftTokens, text.empty() ? "an empty text" : text);
  };
  const auto is_named = [](const std::string& folder) -> std::string {
    return folder.empty() ? "expected the folder of a draft model, found an empty text; name one" : "";
  };
  group
      .add(
          "--speculate",
          [&options](const std::string& text) {
            const std::size_t history = options.draft_history;
            options = parse_speculation(text).value_or(SpeculationOptions());
            options.draft_history = history;
          },
          "off|ngram|draft:DIR|mtp|auto[:DIR]", CLI::Validator(check, ""),
          "Verify up to N draft tokens per step if that is faster; the text stays the same. ngram drafts "
          "what followed the same tokens earlier; draft:DIR drafts with a small model of the same "
          "vocabulary, or with a drafter that was trained for the model (EAGLE-3, DFlash, DSpark); mtp "
          "drafts with the multi-token prediction layer of the model's checkpoint; auto combines ngram with "
          "the model in DIR, else with the model in the folder `draft` of the model's folder, else with mtp. "
          "Append :N for a number other than 8, and :N:always to draft even if it is slower")
      ->default_str("off");
  // This callback runs after the callback of --speculate, which is added first.
  group.add(
      "--draft-model", [&options](const std::string& folder) { set_draft_model(folder, options); }, "DIR",
      CLI::Validator(is_named, ""),
      "Draft with the model in DIR, or with the drafter that was trained for the model; the same as "
      "--speculate draft:DIR");
  group
      .add("--draft-history", options.draft_history, "N", whole_number(0, 1 << 30),
           "With ngram and auto: also draft from the last N tokens of earlier answers; each reserves "
           "200 bytes of rank 0's memory; 0 turns this off")
      ->capture_default_str();
}

void find_draft_model(SpeculationOptions& options, const std::filesystem::path& model, bool is_first_rank) {
  if (options.drafts == DraftKind::automatic && options.model.empty()) {
    const std::filesystem::path own = model / "draft";
    if (std::filesystem::exists(own / "config.json")) options.model = own;
  } else if (!options.model.empty()) {
    try {
      options.model = find_model(options.model);
    } catch (const CheckpointError&) {
      if (is_first_rank) throw;
      options.model.clear();
    }
  }
}

std::string draft_model_of(const std::string& value) {
  return parse_speculation(value).value_or(SpeculationOptions()).model.string();
}

std::string describe_drafts(const SpeculationCounts& counts) {
  std::string places;
  for (std::size_t i = 0; i < kMaxDraftTokens && counts.drafted[i] > 0; ++i)
    places += fmt::format("{}{}/{}", i == 0 ? "" : " ", counts.accepted[i], counts.drafted[i]);
  return fmt::format("{} of {} draft tokens accepted{}{}{}{}\n", counts.accepted_tokens(),
                     counts.drafted_tokens(), places.empty() ? "" : ", by place in the draft ", places,
                     counts.failure.empty() ? "" : "; there were none after a failure: ", counts.failure);
}

}  // namespace tp
