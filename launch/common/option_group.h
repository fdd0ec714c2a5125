// Adds options to a command: each with the name of its values in --help, and a check of the value.
#pragma once

#include "launch/common/option_checks.h"
#include "model/files/parse_number.h"
#include "model/files/split_text.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

namespace tp {

// A group of a command's options: the options under one title of its help.
class OptionGroup {
 public:
  explicit OptionGroup(CLI::App& command, std::string title = "Options")
      : command_(command), title_(std::move(title)) {}

  // `type` names the values in help. `target` is a variable, or a function that receives the text. Help shows
  // a variable's value as the default, unless it is empty or 0.
  template <class Target>
  CLI::Option* add(const std::string& names, Target&& target, const std::string& type,
                   const CLI::Validator& check, const std::string& help) const {
    CLI::Option* option = nullptr;
    if constexpr (std::is_invocable_v<Target, const std::string&>) {
      option = command_.add_option_function<std::string>(names, std::forward<Target>(target), help);
    } else {
      option = command_.add_option(names, target, help);
      if (!is_nothing(target)) option->capture_default_str();
    }
    return option->check(check)->type_name(type)->group(title_);
  }
  // Numbers with commas between them. CLI11's delimiter would skip an empty part, as in "1,,2".
  CLI::Option* add_list(const std::string& names, std::vector<std::size_t>& target, const std::string& type,
                        const CLI::Validator& check, const std::string& help) const {
    const auto check_parts = [check](std::string& text) -> std::string {
      for (const std::string_view part : split_text(text, ',')) {
        std::string number(part);
        if (std::string error = check(number); !error.empty()) return error;
      }
      return {};
    };
    const auto take = [&target](const std::vector<std::string>& texts) {
      target.clear();
      for (const std::string& text : texts) {
        for (const std::string_view part : split_text(text, ','))
          target.push_back(parse_number<std::size_t>(part).value_or(0));
      }
    };
    CLI::Option* const option = command_.add_option_function<std::vector<std::string>>(names, take, help);
    if (!target.empty()) option->default_str(fmt::format("{}", fmt::join(target, ",")));
    return option->check(CLI::Validator(check_parts, ""))->type_name(type)->group(title_);
  }
  // A choice among words. The first is the default.
  template <class Target>
  CLI::Option* add_choice(const std::string& names, Target&& target, const std::string& type,
                          const std::vector<std::string>& words, const std::string& help) const {
    return add(names, std::forward<Target>(target), type, one_of(words), help)->default_str(words.front());
  }
  template <class Target>
  CLI::Option* add_file(const std::string& names, Target& target, const std::string& help) const {
    return add(names, target, "FILE", not_empty("a file"), help);
  }
  // Any text, even an empty one.
  template <class Target>
  CLI::Option* add_text(const std::string& names, Target& target, const std::string& help) const {
    return add(names, target, "TEXT", CLI::Validator(), help);
  }
  CLI::Option* add_flag(const std::string& names, bool& target, const std::string& help) const {
    return command_.add_flag(names, target, help)->group(title_);
  }

 private:
  template <class Target>
  static bool is_nothing(const Target& target) {
    if constexpr (requires { target.has_value(); })
      return !target.has_value();
    else if constexpr (requires { target.empty(); })
      return target.empty();
    else
      return target == Target{};
  }

  CLI::App& command_;
  std::string title_;
};

}  // namespace tp
