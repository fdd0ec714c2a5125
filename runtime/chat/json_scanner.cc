#include "runtime/chat/json_scanner.h"

#include "model/files/blanks.h"
#include "runtime/chat/bounded_json.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr std::size_t kMaxJsonWord = 512;

bool is_of_json_word(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || byte == '-' || byte == '+' ||
         byte == '.' || byte == 'E';
}

// Python's True, False and None begin with capitals.
bool begins_json_word(char byte) {
  return is_of_json_word(byte) || byte == 'T' || byte == 'F' || byte == 'N';
}

bool is_quote(char byte) { return byte == '"' || byte == '\''; }

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20; }

bool is_hex(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

std::string escaped(char control) {
  switch (control) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return fmt::format("\\u{:04x}", static_cast<unsigned>(control));
  }
}

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

}  // namespace

JsonEvent JsonScanner::push(char byte) {
  if (has_failed_) return JsonEvent::invalid;
  written_ = byte;
  if (expected_ == Expected::rest_of_string) return in_string(byte);
  if (expected_ == Expected::rest_of_word) {
    if (is_of_json_word(byte)) return add_to_word(byte) ? JsonEvent::none : fail();
    if (!nlohmann::json::accept(text_)) return fail();
    expected_ = Expected::comma_or_end;
  }
  if (is_blank(byte)) return JsonEvent::none;
  switch (expected_) {
    case Expected::value_or_end:
      return byte == ']' ? close(byte) : begin_value(byte);
    case Expected::value:
      return begin_value(byte);
    case Expected::key_or_end:
      if (byte == '}') return close(byte);
      [[fallthrough]];
    case Expected::key:
      return is_quote(byte) ? begin_string(byte, true) : fail();
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
  // The outermost value must be an object or a list.
  if (open_.empty()) return fail();
  if (is_quote(byte)) return begin_string(byte, false);
  if (!begins_json_word(byte)) return fail();
  text_.clear();
  is_none_ = byte == 'N';
  expected_ = Expected::rest_of_word;
  return add_to_word(byte) ? JsonEvent::none : fail();
}

bool JsonScanner::add_to_word(char byte) {
  constexpr std::string_view kNone = "None";
  const std::size_t place = text_.size();
  if (is_none_) {
    if (place >= kNone.size() || byte != kNone[place]) return false;
    byte = "null"[place];
  } else if (byte == 'T' || byte == 'F') {
    byte = byte == 'T' ? 't' : 'f';
  }
  text_ += byte;
  written_ = byte;
  return text_.size() <= kMaxJsonWord;
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

JsonEvent JsonScanner::begin_string(char quote, bool is_key) {
  quote_ = quote;
  written_ = '"';
  text_.clear();
  escape_.clear();
  is_key_ = is_key;
  expected_ = Expected::rest_of_string;
  return JsonEvent::none;
}

JsonEvent JsonScanner::in_string(char byte) {
  if (!escape_.empty()) return in_escape(byte);
  if (byte == quote_) return end_string();
  if (byte == '"') return add("\\\"");
  if (byte != '\\') return is_control(byte) ? add(escaped(byte)) : add({&byte, 1});
  escape_ = byte;
  written_.clear();
  return JsonEvent::none;
}

JsonEvent JsonScanner::in_escape(char byte) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::size_t kLongEscape = 6;  // \u and four digits
  const bool is_long = escape_.size() > 1;
  if (!is_long && kEscapes.find(byte) != kEscapes.npos) return add(std::exchange(escape_, {}) + byte);
  if (is_long ? is_hex(byte) : byte == 'u') {
    escape_ += byte;
    written_.clear();
    return escape_.size() == kLongEscape ? add(std::exchange(escape_, {})) : JsonEvent::none;
  }
  if (!is_long && byte == '\'') {  // Python's escape
    escape_.clear();
    return add("'");
  }
  // Not an escape, so the model meant a backslash.
  const std::string meant = '\\' + std::exchange(escape_, {});
  text_ += meant;
  const JsonEvent event = in_string(byte);
  written_ = meant + written_;
  return event;
}

JsonEvent JsonScanner::end_string() {
  written_ = '"';
  if (!nlohmann::json::accept(in_quotes(text_))) return fail();  // half of a surrogate pair
  expected_ = is_key_ ? Expected::colon : Expected::comma_or_end;
  return is_key_ ? JsonEvent::key : JsonEvent::string;
}

JsonEvent JsonScanner::add(std::string_view text) {
  text_ += text;
  written_ = text;
  return JsonEvent::none;
}

JsonEvent JsonScanner::fail() {
  has_failed_ = true;
  return JsonEvent::invalid;
}

std::string JsonScanner::text() const { return nlohmann::json::parse(in_quotes(text_)).get<std::string>(); }

std::optional<std::string> repaired_json(std::string_view text) {
  JsonScanner scanner;
  std::string json;
  for (const char byte : text) {
    if (scanner.push(byte) == JsonEvent::invalid) return std::nullopt;
    json += scanner.written();
  }
  return scanner.is_complete() ? std::optional(json) : std::nullopt;
}

}  // namespace tp
