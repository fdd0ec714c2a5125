// Gemma's calls, which have their own quotes. The reader waits for a call's end and then converts the call.
#include "model/files/blanks.h"
#include "model/files/json_text.h"
#include "runtime/chat/call_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxValueDepth = 200;
constexpr std::string_view kPrefix = "call:";

// Reads a text from front to back.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }
  char front() const { return text_.empty() ? '\0' : text_.front(); }
  std::string_view rest() const { return text_; }

  void skip_space() {
    while (!text_.empty() && is_blank(text_.front())) text_.remove_prefix(1);
  }
  bool skip(std::string_view expected) {
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::string_view take(std::size_t size) {
    const std::string_view taken = text_.substr(0, size);
    text_.remove_prefix(taken.size());
    return taken;
  }
  // Returns the text before `end`, and skips both.
  std::optional<std::string_view> until(std::string_view end) {
    const std::size_t place = text_.find(end);
    if (place == std::string_view::npos) return std::nullopt;
    const std::string_view taken = take(place);
    text_.remove_prefix(end.size());
    return taken;
  }

 private:
  std::string_view text_;
};

std::optional<ToolCall> call_of(std::string_view name, const Json& arguments, const ToolSet& tools) {
  if (!tools.contains(name)) return std::nullopt;
  return ToolCall{.name = std::string(name), .arguments = json_text(arguments)};
}

constexpr std::array<std::string_view, 2> kQuotes = {"<escape>", "<|\"|>"};

// Values in Gemma's notation: JSON with unquoted keys, and with Gemma's own quotes around texts.
class EscapedValue {
 public:
  explicit EscapedValue(Cursor& cursor) : cursor_(cursor) {}

  // Reads an object after its opening brace.
  std::optional<Json> object(std::size_t depth = 0) {
    Json object = Json::object();
    cursor_.skip_space();
    if (cursor_.skip("}")) return object;
    while (depth < kMaxValueDepth) {
      std::optional<std::string> key = this->key();
      std::optional<Json> member = key ? value(depth + 1) : std::nullopt;
      if (!member) return std::nullopt;
      object[*key] = *std::move(member);
      cursor_.skip_space();
      if (cursor_.skip("}")) return object;
      if (!cursor_.skip(",")) return std::nullopt;
      cursor_.skip_space();
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> key() {
    if (std::optional<std::string> text = quoted()) {
      cursor_.skip_space();
      return cursor_.skip(":") ? text : std::nullopt;
    }
    const auto name = cursor_.until(":");
    if (!name || name->empty() || name->find_first_of("{}[],\"<>") != name->npos) return std::nullopt;
    return std::string(without_blanks(*name));
  }

  std::optional<std::string> quoted() {
    for (const std::string_view quote : kQuotes) {
      if (!cursor_.skip(quote)) continue;
      const auto text = cursor_.until(quote);
      return text ? std::optional<std::string>(*text) : std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Json> value(std::size_t depth) {
    cursor_.skip_space();
    if (cursor_.skip("{")) return object(depth);
    if (cursor_.skip("[")) return list(depth);
    if (cursor_.front() == '<') {
      const std::optional<std::string> text = quoted();
      return text ? std::optional<Json>(*text) : std::nullopt;
    }
    if (cursor_.front() == '"') return json_text();
    const std::string_view rest = cursor_.rest();
    const std::string_view word = cursor_.take(std::min(rest.find_first_of(",}]"), rest.size()));
    Json json = Json::parse(value_as_json(word, kAnyType), nullptr, false);
    if (json.is_discarded() || json.is_string()) return std::nullopt;
    return json;
  }

  std::optional<Json> list(std::size_t depth) {
    Json list = Json::array();
    cursor_.skip_space();
    if (cursor_.skip("]")) return list;
    while (depth < kMaxValueDepth) {
      std::optional<Json> element = value(depth + 1);
      if (!element) return std::nullopt;
      list.push_back(*std::move(element));
      cursor_.skip_space();
      if (cursor_.skip("]")) return list;
      if (!cursor_.skip(",")) return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Json> json_text() {
    const std::string_view rest = cursor_.rest();
    for (std::size_t end = 1; end < rest.size(); ++end) {
      if (rest[end] == '\\') {
        ++end;
      } else if (rest[end] == '"') {
        Json json = Json::parse(cursor_.take(end + 1), nullptr, false);
        if (json.is_discarded()) return std::nullopt;
        return json;
      }
    }
    return std::nullopt;
  }

  Cursor& cursor_;
};

std::optional<ToolCall> convert_escaped(std::string_view text, const ToolSet& tools) {
  Cursor cursor(text);
  if (!cursor.skip(kPrefix)) return std::nullopt;
  const auto name = cursor.until("{");
  const std::optional<Json> arguments = name ? EscapedValue(cursor).object() : std::nullopt;
  cursor.skip_space();
  return arguments && cursor.at_end() ? call_of(without_blanks(*name), *arguments, tools) : std::nullopt;
}

class EscapedReader final : public CallReader {
 public:
  EscapedReader(const ToolSet& tools, std::string end) : tools_(tools), end_(std::move(end)) {}

  State push(char byte, MessagePieces& pieces) override {
    text_ += byte;
    if (!has_name_ && !may_begin()) return State::invalid;
    for (const std::string_view quote : kQuotes) is_quoted_ = is_quoted_ != text_.ends_with(quote);
    if (is_quoted_ || !text_.ends_with(end_)) return State::reads;
    text_.erase(text_.size() - end_.size());
    return convert(pieces);
  }

  State finish(Ending, MessagePieces& pieces) override { return convert(pieces); }
  bool is_in_call() const override { return false; }  // not known before the end

 private:
  State convert(MessagePieces& pieces) {
    const std::optional<ToolCall> call = convert_escaped(text_, tools_);
    if (!call) return State::invalid;
    append_call(pieces, call->name, call->arguments);
    return State::ended;
  }

  // Whether the text so far may begin a call of a known tool. Without this check, a marker in plain text
  // would hold back the rest of the text.
  bool may_begin() {
    if (text_.size() <= kPrefix.size()) return kPrefix.starts_with(text_);
    const std::string_view name = std::string_view(text_).substr(kPrefix.size());
    const std::size_t end = name.find_first_of(" \n\t\r<{");
    if (!text_.starts_with(kPrefix)) return false;
    if (end == name.npos) return tools_.has_name_beginning_with(name, "");
    has_name_ = true;
    return tools_.contains(name.substr(0, end));
  }

  const ToolSet& tools_;
  std::string end_;
  std::string text_;
  bool has_name_ = false;
  bool is_quoted_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_escaped_reader(const ToolSet& tools, std::string end) {
  return std::make_unique<EscapedReader>(tools, std::move(end));
}

}  // namespace tp
