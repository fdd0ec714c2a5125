// Calls that are JSON objects, and JSON objects after a header.
#include "runtime/tools/call_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Kind = MessagePiece::Kind;

constexpr std::size_t kMaxCallHeader = 512;

bool is_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

class JsonCallReader final : public CallReader {
 public:
  JsonCallReader(const ToolSet& tools, bool is_strict) : tools_(tools), is_strict_(is_strict) {}

  State push(char byte, MessagePieces& pieces) override {
    const JsonEvent event = scanner_.push(byte);
    if (event == JsonEvent::invalid) return State::invalid;
    if (is_in_arguments_) return read_arguments(byte, event, pieces);
    if (!read(event, pieces)) return State::invalid;
    if (!scanner_.is_complete()) return State::reads;
    return has_call_ ? State::ended : State::invalid;
  }

  bool is_in_call() const override { return has_begun_; }

 private:
  State read_arguments(char byte, JsonEvent event, MessagePieces& pieces) {
    add_arguments(std::string_view(&byte, 1), pieces);
    if (event == JsonEvent::end_object && scanner_.depth() == depth_) is_in_arguments_ = false;
    return State::reads;
  }

  // Returns whether this can still be a call.
  bool read(JsonEvent event, MessagePieces& pieces) {
    const std::size_t depth = scanner_.depth();
    switch (event) {
      case JsonEvent::begin_array:
        if (depth == 1) depth_ = 2;
        return depth == 1 || !has_member(is_arguments(key_), depth - 1);
      case JsonEvent::begin_object:
        return begin_object(depth, pieces);
      case JsonEvent::end_object:
        return depth + 1 != depth_ || end_object(pieces);
      case JsonEvent::key:
        if (depth != depth_) return true;
        key_ = scanner_.text();
        return !is_strict_ || is_known(key_);
      case JsonEvent::string:
        return depth != depth_ || read_string(scanner_.text(), pieces);
      default:
        return true;
    }
  }

  bool begin_object(std::size_t depth, MessagePieces& pieces) {
    if (depth == depth_ + 1 && is_arguments(key_)) {
      if (std::exchange(has_arguments_, true)) return false;
      is_in_arguments_ = true;
      add_arguments("{", pieces);
    } else if (depth == depth_ + 1 && key_ == "function" && !is_wrapped_) {
      is_wrapped_ = true;
      ++depth_;
    }
    return true;
  }

  bool end_object(MessagePieces& pieces) {
    if (std::exchange(is_wrapped_, false)) {
      --depth_;
      return true;
    }
    if (!has_begun_ || !has_arguments_) return false;
    append(pieces, Kind::call_end, "");
    has_call_ = true;
    early_arguments_.clear();
    has_begun_ = has_arguments_ = false;
    return true;
  }

  bool read_string(const std::string& text, MessagePieces& pieces) {
    if (key_ == "name") {
      if (has_begun_ || !tools_.contains(text)) return false;
      has_begun_ = true;
      append(pieces, Kind::call, text);
      append(pieces, Kind::arguments, early_arguments_);
    } else if (is_arguments(key_)) {
      if (std::exchange(has_arguments_, true) || !is_object(text)) return false;
      add_arguments(text, pieces);
    }
    return true;
  }

  // The name may come after them.
  void add_arguments(std::string_view text, MessagePieces& pieces) {
    if (has_begun_)
      append(pieces, Kind::arguments, text);
    else
      early_arguments_ += text;
  }

  bool has_member(bool is_it, std::size_t depth) const { return depth == depth_ && is_it; }

  static bool is_object(const std::string& text) {
    return nlohmann::json::parse(text, nullptr, false).is_object();
  }

  static bool is_known(std::string_view key) {
    static constexpr std::array<std::string_view, 4> kKnown = {"name", "type", "id", "function"};
    return is_arguments(key) || std::ranges::find(kKnown, key) != kKnown.end();
  }

  const ToolSet& tools_;
  bool is_strict_;
  JsonScanner scanner_;
  std::size_t depth_ = 1;  // of a call's members
  bool is_wrapped_ = false;
  std::string key_;
  std::string early_arguments_;
  bool has_call_ = false;  // a complete one
  bool has_begun_ = false;
  bool has_arguments_ = false;
  bool is_in_arguments_ = false;
};

class HeadedCallReader final : public CallReader {
 public:
  HeadedCallReader(const ToolSet& tools, NameIn name_in) : tools_(tools), name_in_(name_in) {}

  State push(char byte, MessagePieces& pieces) override {
    if (!has_begun_) {
      if (byte != '{') {
        header_ += byte;
        return header_.size() <= kMaxCallHeader ? State::reads : State::invalid;
      }
      const std::string name(name_in_(header_));
      if (!tools_.contains(name)) return State::invalid;
      has_begun_ = true;
      append(pieces, Kind::call, name);
    }
    if (scanner_.push(byte) == JsonEvent::invalid) return State::invalid;
    append(pieces, Kind::arguments, std::string_view(&byte, 1));
    if (!scanner_.is_complete()) return State::reads;
    append(pieces, Kind::call_end, "");
    has_begun_ = false;
    return State::ended;
  }

  bool is_in_call() const override { return has_begun_; }

 private:
  const ToolSet& tools_;
  NameIn name_in_;
  std::string header_;
  JsonScanner scanner_;
  bool has_begun_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_json_reader(const ToolSet& tools, bool is_strict) {
  return std::make_unique<JsonCallReader>(tools, is_strict);
}

std::unique_ptr<CallReader> make_headed_reader(const ToolSet& tools, NameIn name_in) {
  return std::make_unique<HeadedCallReader>(tools, name_in);
}

}  // namespace tp
