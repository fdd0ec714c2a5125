// Calls that are JSON objects, and calls that are a header and a JSON object.
#include "model/files/blanks.h"
#include "runtime/chat/call_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Kind = MessagePiece::Kind;

constexpr std::size_t kMaxCallHeader = 512;

bool is_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }
bool is_name(std::string_view key) { return key == "name" || key == "tool_name"; }

bool is_known(std::string_view key) {
  static constexpr std::array<std::string_view, 4> kKnown = {"type", "id", "tool_call_id", "function"};
  return is_arguments(key) || is_name(key) || std::ranges::find(kKnown, key) != kKnown.end();
}

// An empty text or null means no arguments.
bool is_no_object(std::string_view text) { return text.empty() || text == "null" || text == "\"\""; }

// Passes on a call and its arguments as they arrive, from the first argument's value on. Earlier invalid JSON
// becomes text.
class CallOutput {
 public:
  void name(std::string_view text) { name_ = text; }
  bool has_name() const { return !name_.empty(); }
  bool has_begun() const { return has_begun_; }
  bool has_arguments() const { return has_arguments_; }

  // Adds the next byte of the arguments, after the scanner has read it.
  void add(char byte, JsonEvent event, const JsonScanner& scanner) {
    has_arguments_ = true;
    arguments_ += scanner.written();
    if (event == JsonEvent::key)
      has_key_ = true;
    else if (has_key_ && byte != ':' && !is_blank(byte))
      has_value_ = true;
  }
  void set(std::string arguments) {
    has_arguments_ = true;
    arguments_ = std::move(arguments);
  }

  void pass(MessagePieces& pieces) {
    if (!has_name() || !has_value_) return;
    if (!std::exchange(has_begun_, true)) append(pieces, Kind::call, name_);
    append(pieces, Kind::arguments, std::exchange(arguments_, {}));
  }

  void end(MessagePieces& pieces) {
    has_value_ = true;
    pass(pieces);
    append(pieces, Kind::call_end, "");
    *this = {};
  }

 private:
  std::string name_{};
  std::string arguments_{};  // not passed on yet
  bool has_arguments_ = false;
  bool has_key_ = false;
  bool has_value_ = false;
  bool has_begun_ = false;
};

class JsonCallReader final : public CallReader {
 public:
  JsonCallReader(const ToolSet& tools, JsonCalls form) : tools_(tools), form_(form) {}

  State push(char byte, MessagePieces& pieces) override {
    const JsonEvent event = scanner_.push(byte);
    if (event == JsonEvent::invalid) return end_at(byte, pieces);
    if (is_in_arguments_) return read_arguments(byte, event, pieces);
    if (!read(event, pieces)) return State::invalid;
    if (!scanner_.is_complete()) return State::reads;
    return has_call_ ? State::ended : State::invalid;
  }

  State finish(Ending ending, MessagePieces& pieces) override {
    if (is_in_arguments_) return State::invalid;
    if (scanner_.depth() >= depth_) {  // the call's last bracket is missing
      const bool needs_none = ending == Ending::complete && !tools_.requires_any(name_);
      if (!output_.has_name() || (!output_.has_arguments() && !needs_none)) return State::invalid;
      end_call(pieces);
    }
    return has_call_ ? State::ended : State::invalid;
  }

  bool is_in_call() const override { return output_.has_begun(); }
  std::string rest() const override { return rest_; }

 private:
  // Handles an end marker after a call whose last brackets are missing.
  State end_at(char byte, MessagePieces& pieces) {
    if ((byte != '<' && byte != '`') || is_in_arguments_) return State::invalid;
    rest_ = byte;
    return finish(Ending::complete, pieces);
  }

  State read_arguments(char byte, JsonEvent event, MessagePieces& pieces) {
    output_.add(byte, event, scanner_);
    output_.pass(pieces);
    if (event == JsonEvent::end_object && scanner_.depth() == depth_) is_in_arguments_ = false;
    return State::reads;
  }

  // Returns false if the text cannot be a call.
  bool read(JsonEvent event, MessagePieces& pieces) {
    const std::size_t depth = scanner_.depth();
    switch (event) {
      case JsonEvent::begin_array:
        if (depth == 1) depth_ = 2;
        return depth == 1 || depth - 1 != depth_ || !is_arguments(key_);
      case JsonEvent::begin_object:
        return begin_object(depth);
      case JsonEvent::end_object:
        return depth + 1 != depth_ || end_object(pieces);
      case JsonEvent::key:
        return depth != depth_ || begin_member(scanner_.text());
      case JsonEvent::string:
        return depth != depth_ || read_string(scanner_.text(), pieces);
      default:
        if (depth == depth_ && scanner_.is_in_word()) word_ += scanner_.written();
        return true;
    }
  }

  bool begin_object(std::size_t depth) {
    if (depth == depth_ + 1 && is_arguments(key_)) {
      if (output_.has_arguments()) return false;
      is_in_arguments_ = true;
      output_.add('{', JsonEvent::begin_object, scanner_);
    } else if (depth == depth_ + 1 && key_ == "function" && !is_wrapped_) {
      is_wrapped_ = true;
      ++depth_;
      key_.clear();
    }
    return true;
  }

  bool begin_member(std::string key) {
    if (!end_member()) return false;
    key_ = std::move(key);
    if (form_ == JsonCalls::keyed && tools_.contains(key_)) {
      if (output_.has_name()) return false;
      give_name(std::exchange(key_, "arguments"));
    } else if (!is_known(key_)) {
      has_others_ = true;
    }
    return form_ != JsonCalls::strict || !has_others_;
  }

  // Ends a member whose value is a word.
  bool end_member() {
    const std::string word = std::exchange(word_, {});
    if (!is_arguments(key_) || output_.has_arguments()) return true;
    if (word == "null") output_.set("{}");
    return word.empty() || word == "null";
  }

  bool end_object(MessagePieces& pieces) {
    if (!end_member()) return false;
    if (std::exchange(is_wrapped_, false)) {
      --depth_;
      key_.clear();
      return true;
    }
    if (!output_.has_name() || (!output_.has_arguments() && has_others_)) return false;
    end_call(pieces);
    return true;
  }

  void end_call(MessagePieces& pieces) {
    if (!output_.has_arguments()) output_.set("{}");
    output_.end(pieces);
    has_call_ = true;
    has_others_ = false;
    key_.clear();
  }

  bool read_string(const std::string& text, MessagePieces& pieces) {
    if (is_name(key_)) {
      if (output_.has_name() || !tools_.contains(text)) return false;
      give_name(text);
    } else if (is_arguments(key_)) {
      const std::string_view object = without_blanks(text);
      const auto arguments = is_no_object(object) ? std::optional<std::string>("{}") : repaired_json(object);
      if (output_.has_arguments() || !arguments || !arguments->starts_with('{')) return false;
      output_.set(*arguments);
    }
    output_.pass(pieces);
    return true;
  }

  void give_name(const std::string& name) {
    name_ = name;
    output_.name(name);
  }

  const ToolSet& tools_;
  JsonCalls form_;
  JsonScanner scanner_;
  CallOutput output_;
  std::size_t depth_ = 1;  // depth of a call's members
  bool is_wrapped_ = false;
  std::string key_;
  std::string word_;  // the member's value, if it is a number, true, false or null
  std::string name_;
  std::string rest_;
  bool has_call_ = false;    // a call is complete
  bool has_others_ = false;  // the object has unknown members
  bool is_in_arguments_ = false;
};

class HeadedCallReader final : public CallReader {
 public:
  HeadedCallReader(const ToolSet& tools, NameIn name_in, std::vector<std::string> ends)
      : tools_(tools), name_in_(name_in), ends_(std::move(ends)) {}

  State push(char byte, MessagePieces& pieces) override {
    if (!is_in_body_) {
      if (byte != '{') return read_header(byte, pieces);
      const std::string_view name = name_in_(header_);
      if (!tools_.contains(name)) return State::invalid;
      output_.name(name);
      is_in_body_ = true;
    }
    const JsonEvent event = scanner_.push(byte);
    if (event == JsonEvent::invalid) return State::invalid;
    output_.add(byte, event, scanner_);
    output_.pass(pieces);
    if (!scanner_.is_complete()) return State::reads;
    output_.end(pieces);
    return State::ended;
  }

  State finish(Ending ending, MessagePieces& pieces) override {
    return ending == Ending::complete && !is_in_body_ ? end_without_body(pieces) : State::invalid;
  }

  bool is_in_call() const override { return output_.has_begun(); }
  std::string rest() const override { return rest_; }

 private:
  State read_header(char byte, MessagePieces& pieces) {
    header_ += byte;
    for (const std::string& end : ends_) {
      if (!header_.ends_with(end)) continue;
      header_.erase(header_.size() - end.size());
      rest_ = end;
      return end_without_body(pieces);
    }
    return header_.size() <= kMaxCallHeader ? State::reads : State::invalid;
  }

  // Ends a call without arguments: a header that names a tool and ends with the mark before arguments.
  State end_without_body(MessagePieces& pieces) {
    static constexpr std::array<std::string_view, 4> kMarks = {"[ARGS]", "<｜tool▁sep｜>",
                                                               "<|tool_call_argument_begin|>", "<|message|>"};
    const std::string_view name = name_in_(header_);
    for (const std::string_view mark : kMarks) {
      const std::size_t place = header_.rfind(mark);
      if (place == header_.npos || !tools_.contains(name)) continue;
      if (!is_no_object(body_after(std::string_view(header_).substr(place + mark.size()), name))) break;
      output_.name(name);
      output_.set("{}");
      output_.end(pieces);
      return State::ended;
    }
    return State::invalid;
  }

  // The arguments after the mark. DeepSeek-R1 writes the name after the mark, and the arguments in a code
  // block.
  static std::string_view body_after(std::string_view text, std::string_view name) {
    for (const std::string_view part : {name, std::string_view("```json"), std::string_view("```")}) {
      text = without_blanks(text);
      if (text.starts_with(part)) text.remove_prefix(part.size());
    }
    text = without_blanks(text);
    if (text.ends_with("```")) text.remove_suffix(3);
    return without_blanks(text);
  }

  const ToolSet& tools_;
  NameIn name_in_;
  std::vector<std::string> ends_;
  std::string header_;
  std::string rest_;
  JsonScanner scanner_;
  CallOutput output_;
  bool is_in_body_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_json_reader(const ToolSet& tools, JsonCalls form) {
  return std::make_unique<JsonCallReader>(tools, form);
}

std::unique_ptr<CallReader> make_headed_reader(const ToolSet& tools, NameIn name_in,
                                               std::vector<std::string> ends) {
  return std::make_unique<HeadedCallReader>(tools, name_in, std::move(ends));
}

}  // namespace tp
