// Options that restrict a continuation's text.
#pragma once

#include "tp/constraint.h"

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

struct ConstraintFlags {
  std::optional<std::string> json_schema;  // a file, or the schema itself
  bool json_object = false;
  std::string json_space = "flexible";
  std::optional<std::string> regex;
  std::vector<std::string> choice;
  std::optional<std::string> grammar_file;

  void add_to(CLI::App& command);
  // Throws CLI::ValidationError if there is more than one constraint.
  void check() const;
  // Reads the files. Throws Error for an unreadable file or an invalid constraint.
  std::optional<Constraint> read() const;
};

}  // namespace tp
