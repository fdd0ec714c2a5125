#include "runtime/tools/json_scanner.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr std::size_t kMaxJsonDepth = 200;
constexpr std::size_t kMaxJsonWord = 512;

bool is_json_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

bool is_of_json_word(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || byte == '-' || byte == '+' ||
         byte == '.' || byte == 'E';
}

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

}  // namespace

JsonEvent JsonScanner::push(char byte) {
  if (has_failed_) return JsonEvent::invalid;
  if (expected_ == Expected::rest_of_string) return in_string(byte);
  if (expected_ == Expected::rest_of_word) {
    if (is_of_json_word(byte)) {
      text_ += byte;
      return text_.size() <= kMaxJsonWord ? JsonEvent::none : fail();
    }
    if (!nlohmann::json::accept(text_)) return fail();
    expected_ = Expected::comma_or_end;
  }
  if (is_json_space(byte)) return JsonEvent::none;
  switch (expected_) {
    case Expected::value_or_end:
      return byte == ']' ? close(byte) : begin_value(byte);
    case Expected::value:
      return begin_value(byte);
    case Expected::key_or_end:
      if (byte == '}') return close(byte);
      [[fallthrough]];
    case Expected::key:
      return byte == '"' ? begin_string(true) : fail();
    case Expected::colon:
      expected_ = Expected::value;
      return byte == ':' ? JsonEvent::none : fail();
    case Expected::comma_or_end:
      if (byte != ',') return close(byte);
      expected_ = open_.back() == '{' ? Expected::key : Expected::value;
      return JsonEvent::none;
    default:
      return fail();
  }
}

JsonEvent JsonScanner::begin_value(char byte) {
  if (byte == '{' || byte == '[') return open(byte);
  // What is read as a whole is an object or a list.
  if (open_.empty()) return fail();
  if (byte == '"') return begin_string(false);
  if (!is_of_json_word(byte)) return fail();
  text_ = byte;
  expected_ = Expected::rest_of_word;
  return JsonEvent::none;
}

JsonEvent JsonScanner::open(char byte) {
  if (open_.size() == kMaxJsonDepth) return fail();
  open_.push_back(byte);
  expected_ = byte == '{' ? Expected::key_or_end : Expected::value_or_end;
  return byte == '{' ? JsonEvent::begin_object : JsonEvent::begin_array;
}

JsonEvent JsonScanner::close(char byte) {
  const char opened = byte == '}' ? '{' : byte == ']' ? '[' : '\0';
  if (open_.empty() || open_.back() != opened) return fail();
  open_.pop_back();
  expected_ = open_.empty() ? Expected::nothing : Expected::comma_or_end;
  return byte == '}' ? JsonEvent::end_object : JsonEvent::end_array;
}

JsonEvent JsonScanner::begin_string(bool is_key) {
  text_.clear();
  is_key_ = is_key;
  is_escaped_ = false;
  expected_ = Expected::rest_of_string;
  return JsonEvent::none;
}

JsonEvent JsonScanner::in_string(char byte) {
  if (byte != '"' || is_escaped_) {
    text_ += byte;
    is_escaped_ = byte == '\\' && !is_escaped_;
    return static_cast<unsigned char>(byte) >= 0x20 ? JsonEvent::none : fail();
  }
  if (!nlohmann::json::accept(in_quotes(text_))) return fail();  // an escape is wrong
  expected_ = is_key_ ? Expected::colon : Expected::comma_or_end;
  return is_key_ ? JsonEvent::key : JsonEvent::string;
}

JsonEvent JsonScanner::fail() {
  has_failed_ = true;
  return JsonEvent::invalid;
}

std::string JsonScanner::text() const { return nlohmann::json::parse(in_quotes(text_)).get<std::string>(); }

}  // namespace tp
