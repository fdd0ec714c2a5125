// --help with lines of at most 100 columns.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace tp {

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), 100 - get_column_width());
  }

  // CLI11 2.4 and newer write " N [64] " instead of " N=64".
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const std::string value = " [" + option->get_default_str() + "] ";
    const std::size_t place = text.find(value);
    return place == text.npos ? text : text.replace(place, value.size(), "=" + option->get_default_str());
  }

 private:
  // Breaks the text at spaces. CLI11 indents the following lines.
  static std::string wrapped(std::string text, std::size_t width) {
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
};

}  // namespace tp
