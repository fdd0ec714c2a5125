// --help that fits the terminal: first the common options, then the others. --help-all has all of them.
#pragma once

#include <cstddef>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

class HelpFormat : public CLI::Formatter {
 public:
  // Lines have at most `columns` columns, apart from examples.
  explicit HelpFormat(std::size_t columns);

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  // The options of a command with --help, in groups.
  std::string short_groups(const CLI::App& app, const std::string& name) const;

  std::size_t columns_;
};

// The columns that --help may fill: those of the terminal, at most 100.
std::size_t help_columns();

}  // namespace tp
