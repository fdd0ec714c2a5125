#include "launch/common/help_format.h"

#include "launch/common/console.h"
#include "model/files/split_text.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>
#include <unistd.h>

namespace tp {
namespace {

constexpr std::size_t kMax = 100;  // columns of help, for which footers are written

// The options that most people need, in this order.
constexpr std::string_view kCommon[] = {
    "--model",   "--prompt",     "--query",       "--prompt-file", "--batch",   "--output", "--server",
    "--system",  "--load",       "--hosts",       "--memory",      "--host",    "--port",   "--api-key-file",
    "--weights", "--max-tokens", "--temperature", "--seed",        "--verbose", "--help"};

// The options that only --help-all lists.
constexpr std::string_view kRare[] = {"--adapter",
                                      "--attention",
                                      "--bad-word",
                                      "--block-length",
                                      "--cache-tokens",
                                      "--draft-history",
                                      "--draft-model",
                                      "--early-stopping",
                                      "--forced-bos",
                                      "--frequency-penalty",
                                      "--ignore-eos",
                                      "--include-stop",
                                      "--json-space",
                                      "--kv-slices",
                                      "--kv-store-min",
                                      "--kv-store-size",
                                      "--kv-type",
                                      "--length-penalty",
                                      "--min-p",
                                      "--min-tokens",
                                      "--packed-cache",
                                      "--pipeline",
                                      "--prefill-chunk",
                                      "--presence-penalty",
                                      "--repetition-penalty",
                                      "--split",
                                      "--steps",
                                      "--task",
                                      "--threshold",
                                      "--timeout",
                                      "--trace",
                                      "--two-batch-overlap",
                                      "--unmask",
                                      "--unmask-cache",
                                      "--wire"};

bool is_one_of(const auto& names, const CLI::Option& option) {
  return std::ranges::any_of(option.get_lnames(), [&](const std::string& name) {
    return std::ranges::find(names, "--" + name) != std::end(names);
  });
}

std::size_t place_of(const CLI::Option* option) {
  const auto* const place = std::ranges::find_if(
      kCommon, [&](std::string_view name) { return option->check_name(std::string(name)); });
  return static_cast<std::size_t>(place - std::begin(kCommon));
}

// Breaks a line between words. CLI11 indents what follows a line break.
std::string wrapped(std::string text, std::size_t width) {
  std::size_t begin = 0;
  while (text.size() - begin > width) {
    std::size_t space = text.rfind(' ', begin + width);
    if (space == text.npos || space <= begin) space = text.find(' ', begin);
    if (space == text.npos) break;
    text[space] = '\n';
    begin = space + 1;
  }
  return text;
}

// Breaks prose between words at another width than that for which it was written. Examples begin with a
// blank, and stay.
std::string rewrapped(const std::string& text, std::size_t width) {
  constexpr std::size_t kLong = 80;  // a line of at least this size continues in the next one
  std::vector<std::string> paragraphs;
  bool continues = false;
  for (const std::string_view line : split_text(text, '\n')) {
    const bool is_prose = !line.empty() && line.front() != ' ';
    if (continues && is_prose && !line.starts_with("Example"))
      paragraphs.back().append(" ").append(line);
    else
      paragraphs.emplace_back(line);
    continues = is_prose && line.size() >= kLong;
  }
  for (std::string& paragraph : paragraphs)
    if (!paragraph.starts_with(' ')) paragraph = wrapped(paragraph, width);
  return fmt::format("{}", fmt::join(paragraphs, "\n"));
}

}  // namespace

std::size_t help_columns() {
  constexpr std::size_t kMin = 50;
  return leads_to_terminal(STDOUT_FILENO) ? std::clamp(terminal_columns(STDOUT_FILENO), kMin, kMax) : kMax;
}

HelpFormat::HelpFormat(std::size_t columns) : columns_(columns) {
  constexpr std::size_t kNarrow = 72;
  constexpr std::size_t kNames = 20;
  if (columns < kNarrow) column_width(kNames);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const std::string groups = mode == CLI::AppFormatMode::All ? make_groups(app, CLI::AppFormatMode::Normal)
                                                             : short_groups(*app, name);
  const std::string text = make_description(app) + make_usage(app, name) + make_positionals(app) + groups +
                           make_subcommands(app, CLI::AppFormatMode::Normal) + '\n';
  // CLI11 has begun make_footer() with an empty line since 2.4.
  const std::string footer = app->get_footer();
  return text + (footer.empty() ? footer : rewrapped(footer + '\n', columns_));
}

std::string HelpFormat::short_groups(const CLI::App& app, const std::string& name) const {
  using Options = std::vector<const CLI::Option*>;
  const auto listed = [&](const auto& condition) {
    return app.get_options([&](const CLI::Option* option) {
      return option->nonpositional() && option != app.get_help_all_ptr() && condition(*option);
    });
  };
  const std::size_t rare = listed([](const CLI::Option& option) { return is_one_of(kRare, option); }).size();
  const auto is_common = [&](const CLI::Option& option) { return rare > 0 && is_one_of(kCommon, option); };
  std::string text;
  if (Options common = listed(is_common); !common.empty()) {
    std::ranges::stable_sort(common, {}, place_of);
    text += make_group("Common options", false, common);
  }
  for (const std::string& group : app.get_groups()) {
    const Options shown = listed([&](const CLI::Option& option) {
      return option.get_group() == group && !is_common(option) && !is_one_of(kRare, option);
    });
    if (!group.empty() && !shown.empty()) text += make_group(group, false, shown);
  }
  if (rare > 0) text += fmt::format("\n{} more options: {} --help-all\n", rare, name);
  return text;
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), columns_ - get_column_width());
}

// CLI11 2.4 and newer write " N [64] " instead of " N=64".
std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  std::string text = CLI::Formatter::make_option_opts(option);
  const std::string value = " [" + option->get_default_str() + "] ";
  const std::size_t place = text.find(value);
  return place == text.npos ? text : text.replace(place, value.size(), "=" + option->get_default_str());
}

}  // namespace tp
