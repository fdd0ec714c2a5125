#include "model/chat/jinja/printing.h"

#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::jinja {
namespace {

// Writes a number like Python: the shortest digits that identify it, always with a mark of a float.
std::string number_text(double number, bool json) {
  if (std::isnan(number)) return json ? "NaN" : "nan";
  if (std::isinf(number)) return std::string(number < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// The escape for a control character or an invisible character in quotes.
std::string escaped(char32_t code_point) {
  const auto value = static_cast<std::uint32_t>(code_point);
  if (value < 0x100) return fmt::format("\\x{:02x}", value);
  return value < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
}

std::string escaped_for(char quote, std::string_view text) {
  std::string out;
  for (const auto [c, bytes] : utf8::Characters(text)) {
    if (c == U'\n')
      out += "\\n";
    else if (c == U'\r')
      out += "\\r";
    else if (c == U'\t')
      out += "\\t";
    else if (c == U'\\' || c == static_cast<char32_t>(quote))
      out.append("\\").append(bytes);
    else if (unicode::is_printable(c))
      out += bytes;
    else
      out += escaped(c);
  }
  return out;
}

MarkedText between(char quote, const MarkedText& text) {
  MarkedText out(std::string(1, quote));
  out.append(text);
  out.append({&quote, 1});
  return out;
}

// Uses single quotes, unless the text contains single quotes and no double quotes.
MarkedText quoted(const MarkedText& text) {
  const bool has_single = text.text().find('\'') != std::string::npos;
  const char quote = has_single && text.text().find('"') == std::string::npos ? '"' : '\'';
  return between(quote, text.transformed([&](std::string_view run) { return escaped_for(quote, run); }));
}

// Writes a value and its elements, in Python's notation or as JSON.
class Printer {
 public:
  Printer(Budget& budget, const JsonStyle* json) : budget_(budget), json_(json) {}

  MarkedText take() { return std::move(out_); }

  void write(const Value& value, std::size_t depth) {
    const Budget::Level level(budget_);
    budget_.spend(Budget::kStep);
    const List* list = value.list();
    if (list != nullptr && (list->kind == List::Kind::list || list->kind == List::Kind::tuple))
      write_list(*list, depth);
    else if (const Dict* dict = value.dict())
      write_dict(*dict, depth);
    else
      write_scalar(value);
  }

 private:
  void write_scalar(const Value& value) {
    const MarkedText text = value.is_text() ? quoted_text(value.marked_text()) : MarkedText(scalar(value));
    budget_.spend(text.size());
    out_.append(text);
  }

  // Writes a value that is not a text.
  std::string scalar(const Value& value) const {
    if (const auto* integer = value.get_if<std::int64_t>()) return fmt::format("{}", *integer);
    if (const auto* number = value.get_if<double>()) return number_text(*number, json_ != nullptr);
    if (const auto* boolean = value.get_if<bool>()) {
      if (json_ != nullptr) return *boolean ? "true" : "false";
      return *boolean ? "True" : "False";
    }
    if (value.is<None>()) return json_ != nullptr ? "null" : "None";
    if (value.is_undefined() && json_ == nullptr) return "Undefined";
    throw EvaluationError(fmt::format("a value of type {} cannot be {}", value.type_name(),
                                      json_ != nullptr ? "written as JSON" : "printed"));
  }

  MarkedText quoted_text(const MarkedText& text) const {
    if (json_ == nullptr) return quoted(text);
    return between('"', text.transformed([&](std::string_view run) {
      const std::string in_quotes = nlohmann::json(run).dump(-1, ' ', json_->ascii_only);
      return in_quotes.substr(1, in_quotes.size() - 2);
    }));
  }

  // Keys that are not strings are converted to strings.
  MarkedText json_key(const Value& key) const {
    return key.is_text() ? quoted_text(key.marked_text()) : MarkedText(fmt::format("\"{}\"", scalar(key)));
  }

  void separate_items() {
    if (json_ != nullptr)
      out_.append(json_->item_separator);
    else
      out_.append(", ");
  }

  void begin_line(std::size_t depth) {
    if (json_ == nullptr || !json_->indent) return;
    budget_.spend(*json_->indent * depth + 1);
    out_.append('\n' + std::string(*json_->indent * depth, ' '));
  }

  void write_list(const List& list, std::size_t depth) {
    const bool is_tuple = list.kind == List::Kind::tuple && json_ == nullptr;
    out_.append(is_tuple ? "(" : "[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i != 0) separate_items();
      begin_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    if (!list.items.empty()) begin_line(depth);
    if (is_tuple && list.items.size() == 1) out_.append(",");
    out_.append(is_tuple ? ")" : "]");
  }

  void write_dict(const Dict& dict, std::size_t depth) {
    std::vector<const std::pair<Value, Value>*> members;
    for (const auto& member : dict.members) members.push_back(&member);
    if (json_ != nullptr && json_->sorted_keys) {
      budget_.spend(members.size() * Budget::kElement);
      std::stable_sort(members.begin(), members.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    }
    out_.append("{");
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i != 0) separate_items();
      begin_line(depth + 1);
      if (json_ != nullptr) {
        out_.append(json_key(members[i]->first));
        out_.append(json_->key_separator);
      } else {
        write(members[i]->first, depth + 1);
        out_.append(": ");
      }
      write(members[i]->second, depth + 1);
    }
    if (!members.empty()) begin_line(depth);
    out_.append("}");
  }

  Budget& budget_;
  const JsonStyle* json_;  // null: Python's notation
  MarkedText out_;
};

}  // namespace

MarkedText printed(const Value& value, Budget& budget) {
  if (value.is_undefined()) return {};
  if (value.is_text()) {
    budget.spend(value.text().size());
    return value.marked_text();
  }
  return representation(value, budget);
}

MarkedText representation(const Value& value, Budget& budget) {
  Printer printer(budget, nullptr);
  printer.write(value, 0);
  return printer.take();
}

MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Printer printer(budget, &style);
  printer.write(value, 0);
  return printer.take();
}

}  // namespace tp::jinja
