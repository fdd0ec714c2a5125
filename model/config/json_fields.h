// Reading JSON objects whose fields may be absent, null, or wrong.
#pragma once

#include "tp/token_id.h"

#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// Parses JSON text to an object. Throws CheckpointError naming `name` and the place of the fault.
nlohmann::json parse_json_object(const std::string& text, const std::string& name);

// The whole file. Throws CheckpointError if it is missing or unreadable.
std::string read_text_file(const std::filesystem::path& path);

// The fields of one JSON object; a field that is absent or null counts as not given. Errors are ConfigErrors
// that name the file, the field, what was expected and what was found.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool has(const std::string& field) const;
  // Null, where that says something else than absence.
  bool is_null(const std::string& field) const;
  // The first of these names of one field that is given; the first name if none is.
  std::string name_of(std::initializer_list<std::string> names) const;
  // A whole number >= 1 and <= 2^40.
  std::size_t size(const std::string& field) const;
  std::size_t size_or(const std::string& field, std::size_t otherwise) const;
  // A whole number >= 0 and <= 2^40.
  std::size_t count_or(const std::string& field, std::size_t otherwise) const;
  // A finite number.
  double number(const std::string& field) const;
  double number_or(const std::string& field, double otherwise) const;
  bool boolean_or(const std::string& field, bool otherwise) const;
  std::string text(const std::string& field) const;
  std::string text_or(const std::string& field, const std::string& otherwise) const;
  // Lists; empty if not given.
  std::vector<double> numbers(const std::string& field) const;
  std::vector<std::size_t> counts(const std::string& field) const;
  std::vector<std::string> texts(const std::string& field) const;
  // A token id, a list of them, or nothing.
  std::vector<TokenId> token_ids(const std::string& field) const;
  // An object within this one.
  JsonFields object(const std::string& field) const;

 private:
  const nlohmann::json& at(const std::string& field) const;
  [[noreturn]] void wrong(const std::string& field, const std::string& expected) const;

  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace tp
