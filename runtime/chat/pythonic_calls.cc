// Reads calls in Python's notation: [get_weather(city="Oslo", days=2), note()], or one call in each line.
#include "model/files/blanks.h"
#include "model/files/json_text.h"
#include "runtime/chat/bounded_json.h"
#include "runtime/chat/call_reader.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

// Tracks quotes and brackets in Python code, byte by byte.
class Nesting {
 public:
  void push(char byte) {
    if (quote_ != '\0') {
      if (is_escaped_)
        is_escaped_ = false;
      else if (byte == '\\')
        is_escaped_ = true;
      else if (byte == quote_)
        quote_ = '\0';
    } else if (byte == '"' || byte == '\'') {
      quote_ = byte;
    } else if (std::string_view("([{").find(byte) != std::string_view::npos) {
      ++depth_;
    } else if (std::string_view(")]}").find(byte) != std::string_view::npos) {
      --depth_;
    }
  }

  // The number of open brackets; negative after an unmatched closing bracket.
  int depth() const { return quote_ == '\0' ? depth_ : std::max(depth_, 0); }
  bool is_outside() const { return quote_ == '\0' && depth_ == 0; }

 private:
  int depth_ = 0;
  char quote_ = '\0';
  bool is_escaped_ = false;
};

// Finds the first comma outside of quotes and brackets, or the end.
std::size_t end_of_argument(std::string_view text) {
  Nesting nesting;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',' && nesting.is_outside()) return i;
    nesting.push(text[i]);
  }
  return text.size();
}

// Converts a Python value to JSON with the scanner's repairs.
std::optional<std::string> json_of(std::string_view value) {
  const std::optional<std::string> list = repaired_json("[" + std::string(value) + "]");
  return list ? std::optional(list->substr(1, list->size() - 2)) : std::nullopt;
}

// Converts a call's arguments, without the parentheses, to JSON: city="Oslo", days=2
std::optional<Json> arguments_of(std::string_view text) {
  std::string object;
  text = without_blanks(text);
  while (!text.empty()) {
    const std::string_view argument = text.substr(0, end_of_argument(text));
    const std::size_t sign = argument.find('=');
    if (sign == argument.npos) return std::nullopt;
    const std::string_view key = without_blanks(argument.substr(0, sign));
    const std::optional<std::string> value = json_of(argument.substr(sign + 1));
    if (key.empty() || key.find_first_of("\"'()[]{}, \n") != key.npos || !value) return std::nullopt;
    object.append(object.empty() ? "{" : ",").append(json_text(Json(key)));
    object.append(":").append(*value);
    text = without_blanks(text.substr(std::min(argument.size() + 1, text.size())));
  }
  return BoundedJson().parse(object.empty() ? "{}" : object + "}");
}

class PythonicReader final : public CallReader {
 public:
  PythonicReader(const ToolSet& tools, JsonCalls json) : tools_(tools), json_form_(json) {}

  State push(char byte, MessagePieces& pieces) override {
    if (json_) return json_->push(byte, pieces);
    switch (part_) {
      case Part::begin:
        return begin(byte, pieces);
      case Part::name:
        return name(byte);
      case Part::arguments:
        return arguments(byte, pieces);
      case Part::between:
        break;
    }
    return go_on(byte);
  }

  State finish(Ending ending, MessagePieces& pieces) override {
    if (json_) return json_->finish(ending, pieces);
    return part_ == Part::between ? State::ended : State::invalid;
  }

  // A call is delivered only when it is complete.
  bool is_in_call() const override { return json_ && json_->is_in_call(); }
  std::string rest() const override { return json_ ? json_->rest() : rest_; }

 private:
  enum class Part : std::uint8_t { begin, name, arguments, between };

  // Reads the text before the first name. A "{" means that the calls are JSON.
  State begin(char byte, MessagePieces& pieces) {
    opening_ += byte;
    if (is_blank(byte)) return State::reads;
    if (byte == '[' && !is_list_) {
      is_list_ = true;
      return State::reads;
    }
    if (byte != '{') return name(byte);
    json_ = make_json_reader(tools_, json_form_);
    State state = State::reads;
    for (const char held : opening_) state = json_->push(held, pieces);
    return state;
  }

  // Accepts only names of known tools: otherwise a marker in plain text would hold back all text after it.
  State name(char byte) {
    part_ = Part::name;
    if (is_blank(byte) && name_.empty()) return State::reads;
    if (byte == '(' && tools_.contains(name_)) {
      part_ = Part::arguments;
      return State::reads;
    }
    name_ += byte;
    return tools_.has_name_beginning_with(name_, "(") ? State::reads : State::invalid;
  }

  State arguments(char byte, MessagePieces& pieces) {
    nesting_.push(byte);
    if (nesting_.depth() >= 0) {
      arguments_ += byte;
      return State::reads;
    }
    const std::optional<Json> arguments = byte == ')' ? arguments_of(arguments_) : std::nullopt;
    if (!arguments) return State::invalid;
    append_call(pieces, name_, json_text(*arguments));
    name_.clear();
    arguments_.clear();
    nesting_ = {};
    part_ = Part::between;
    return State::reads;
  }

  State go_on(char byte) {
    has_line_ = has_line_ || byte == '\n';
    if (is_blank(byte)) return State::reads;
    if (has_line_ && !is_list_ && tools_.has_name_beginning_with({&byte, 1}, "(")) {
      has_line_ = false;
      return name(byte);
    }
    if (byte == ',') {
      part_ = Part::name;
      return State::reads;
    }
    if (byte != ']') rest_ = byte;
    return State::ended;
  }

  const ToolSet& tools_;
  JsonCalls json_form_;
  std::unique_ptr<CallReader> json_{};  // set if the calls are JSON
  Part part_ = Part::begin;
  std::string opening_{};
  bool is_list_ = false;
  bool has_line_ = false;  // a line ended after the last call
  std::string name_{};
  std::string arguments_{};
  Nesting nesting_{};
  std::string rest_{};
};

}  // namespace

std::unique_ptr<CallReader> make_pythonic_reader(const ToolSet& tools, JsonCalls json) {
  return std::make_unique<PythonicReader>(tools, json);
}

}  // namespace tp
