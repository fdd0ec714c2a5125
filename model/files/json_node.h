// Reading a checkpoint's JSON files, which are untrusted: every access checks the type, and every error says
// which value of which file is wrong.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Parses a file, or a text that `file` stands for in errors. Throws CheckpointError when it cannot be read,
// is too large or is not JSON as Python writes it. The last value of a repeated key counts, with a notice.
nlohmann::json read_json_file(const std::filesystem::path& file);
nlohmann::json parse_json_file(const std::string& text, const std::filesystem::path& file);

// A JSON value that knows its place in its file. It refers to the document and must not outlive it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& document, const std::filesystem::path& file);

  // The member `key` of this object. at() throws when it is missing or null; find() returns nothing then.
  // Both throw when this is not an object.
  JsonNode at(std::string_view key) const;
  std::optional<JsonNode> find(std::string_view key) const;

  // Whether find() finds it, and whether it is there and null, where that says something else than absence.
  bool has(std::string_view key) const;
  bool is_null(std::string_view key) const;
  // The first of these names of one member that is given; the first name if none is.
  std::string name_of(std::initializer_list<std::string> names) const;

  // The elements of this array.
  std::vector<JsonNode> elements() const;
  // What `read`, such as &JsonNode::string, makes of the elements of the member `key`; nothing if it is not
  // given.
  template <class Read>
  auto list_or_empty(std::string_view key, const Read& read) const;

  // This value, which must be of the type asked for.
  const std::string& string() const;
  bool boolean() const;
  // A finite number.
  double number() const;
  // An integer in [0, limit).
  std::int64_t integer_below(std::int64_t limit) const;
  // A whole number from 0, or from 1, to 2^31 - 1.
  std::size_t count() const;
  std::size_t size() const;
  // A token id, or a list of them. Integers that TokenId cannot hold become its bounds, which no vocabulary
  // has.
  std::vector<TokenId> token_ids() const;
  // A string that is one character.
  const std::string& character() const;

  // The member `key`, or `fallback` when it is missing or null.
  bool boolean_or(std::string_view key, bool fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::size_t count_or(std::string_view key, std::size_t fallback) const;
  std::size_t size_or(std::string_view key, std::size_t fallback) const;
  std::string string_or(std::string_view key, const std::string& fallback) const;

  // The member "type".
  const std::string& type() const;

  // The file, as errors call it.
  const std::string& file() const { return file_; }

  bool is_string() const;
  bool is_array() const;
  const nlohmann::json& value() const { return value_; }

  // Calls visit(key, value) for the members of this object without making nodes of them: vocabularies are
  // large.
  void for_each_member(const std::function<void(const std::string&, const nlohmann::json&)>& visit) const;

  // Throws CheckpointError: "FILE: cannot use PLACE: found .., expected ..; advice".
  [[noreturn]] void fail(std::string_view found, std::string_view expected,
                         std::string_view advice = kDamagedAdvice) const;
  // The same with a description of this value as what was found.
  [[noreturn]] void fail_type(std::string_view expected) const;
  // The same for a "type" that tp-infer does not know.
  [[noreturn]] void fail_unsupported_type(std::string_view supported) const;

  static constexpr std::string_view kDamagedAdvice =
      "the file may be damaged: get it again from where the model comes from";

 private:
  JsonNode(const nlohmann::json& value, const std::string& file, std::string place);

  JsonNode child(const nlohmann::json& value, std::string_view key) const;
  bool is_integer_within(std::int64_t least, std::int64_t most) const;

  std::reference_wrapper<const nlohmann::json> value_;
  std::string file_;
  std::string place_;  // "normalizer.normalizers[1]"; empty for the document
};

template <class Read>
auto JsonNode::list_or_empty(std::string_view key, const Read& read) const {
  std::vector<std::decay_t<std::invoke_result_t<Read, const JsonNode&>>> values;
  const std::optional<JsonNode> list = find(key);
  if (!list) return values;
  for (const JsonNode& element : list->elements()) values.push_back(std::invoke(read, element));
  return values;
}

}  // namespace tp
