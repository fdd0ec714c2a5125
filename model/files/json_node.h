// Reads a checkpoint's JSON files, which are untrusted. Every access checks the type, and every error names
// the file and the value.
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

// Parses a file, or a text that errors call `file`. Throws CheckpointError if it cannot be read, is too
// large, or is not JSON as Python writes it. The last value of a repeated key counts, with a notice.
nlohmann::json read_json_file(const std::filesystem::path& file);
nlohmann::json parse_json_file(const std::string& text, const std::filesystem::path& file);

// A JSON value that knows its place in its file. Refers to the document, which must outlive it.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& document, const std::filesystem::path& file);

  // The member `key` of this object. If it is missing or null, at() throws and find() returns nothing. Both
  // throw if this is not an object.
  JsonNode at(std::string_view key) const;
  std::optional<JsonNode> find(std::string_view key) const;

  // has(): whether find() returns a value. is_null(): whether the member exists and is null, for members in
  // which null differs from absence.
  bool has(std::string_view key) const;
  bool is_null(std::string_view key) const;
  // For a member with several names: the first name that the object has, or the first of all if it has none.
  std::string name_of(std::initializer_list<std::string> names) const;

  std::vector<JsonNode> elements() const;
  // Applies `read`, such as &JsonNode::string, to the elements of the member `key`; empty if it is missing or
  // null.
  template <class Read>
  auto list_or_empty(std::string_view key, const Read& read) const;

  // This value. Throws if it has another type.
  const std::string& string() const;
  bool boolean() const;
  // A number that float32 can hold.
  double number() const;
  // Whether this value stands for infinity: Python's Infinity, or a number that float32 cannot hold.
  bool is_infinite() const;
  // An integer in [0, limit).
  std::int64_t integer_below(std::int64_t limit) const;
  // A whole number up to 2^31 - 1: from 0 (count), from 1 (size).
  std::size_t count() const;
  std::size_t size() const;
  // A token id or a list of them. Integers that TokenId cannot hold become its bounds, which no vocabulary
  // contains.
  std::vector<TokenId> token_ids() const;
  // A string that is one character.
  const std::string& character() const;

  // The member `key`, or `fallback` if it is missing or null.
  bool boolean_or(std::string_view key, bool fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::size_t count_or(std::string_view key, std::size_t fallback) const;
  std::size_t size_or(std::string_view key, std::size_t fallback) const;
  std::string string_or(std::string_view key, const std::string& fallback) const;

  // The member `key`, a limit: `none` if it is null or infinite, `fallback` if it is missing. Whole numbers
  // that size() does not accept are infinite, too.
  double limit_or(std::string_view key, double fallback, double none = 0.0) const;
  std::size_t size_limit_or(std::string_view key, std::size_t fallback, std::size_t none = 0) const;

  // Replaces `target` by the member with the first of these names that the object has; keeps it if the member
  // is missing or null.
  using Names = std::initializer_list<std::string>;
  void update(Names names, bool& target) const { target = boolean_or(name_of(names), target); }
  void update(Names names, double& target) const { target = number_or(name_of(names), target); }
  void update(Names names, std::string& target) const { target = string_or(name_of(names), target); }
  void update_count(Names names, std::size_t& target) const { target = count_or(name_of(names), target); }
  void update_size(Names names, std::size_t& target) const { target = size_or(name_of(names), target); }

  // The member "type".
  const std::string& type() const;

  // The file's name in errors.
  const std::string& file() const { return file_; }

  bool is_string() const;
  bool is_array() const;
  const nlohmann::json& value() const { return value_; }

  // Calls visit(key, value) for the members of this object. Makes no nodes, because vocabularies are large.
  void for_each_member(const std::function<void(const std::string&, const nlohmann::json&)>& visit) const;

  // Throws CheckpointError: "FILE: cannot use PLACE: found .., expected ..; advice".
  [[noreturn]] void fail(std::string_view found, std::string_view expected,
                         std::string_view advice = kDamagedAdvice) const;
  // fail() with a description of this value as `found`.
  [[noreturn]] void fail_type(std::string_view expected) const;
  // fail() for a "type" that tp-infer does not know.
  [[noreturn]] void fail_unsupported_type(std::string_view supported) const;

  static constexpr std::string_view kDamagedAdvice =
      "the file may be damaged: get it again from where the model comes from";

 private:
  JsonNode(const nlohmann::json& value, const std::string& file, std::string place);

  JsonNode child(const nlohmann::json& value, std::string_view key) const;
  bool is_integer_within(std::int64_t min, std::int64_t max) const;

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
