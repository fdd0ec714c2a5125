// Calls in tags, whose values are not quoted.
#include "model/files/blanks.h"
#include "model/files/json_text.h"
#include "runtime/chat/call_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr std::size_t kMaxTag = 512;

// Whether a text contains something at a place.
enum class Match : std::uint8_t {
  no,
  yes,
  open,  // depends on the text that follows
};

// A tag within a value is the end of the value only if the notation allows the text after the tag. So the end
// of the last value is certain if the next call begins or the answer ends. If other text follows, a later end
// of the value is preferred.
class TagReader final : public CallReader {
 public:
  TagReader(const ToolSet& tools, const TagNotation& notation, std::vector<std::string> begins,
            std::string end)
      : tools_(tools), notation_(notation), begins_(std::move(begins)), end_(std::move(end)) {}

  State push(char byte, MessagePieces& pieces) override {
    text_ += byte;
    // White space decides nothing, unless it ends a name.
    return part_ != Part::name && is_blank(byte) ? State::reads : read(pieces);
  }

  State finish(Ending ending, MessagePieces& pieces) override {
    ending_ = ending;
    return read(pieces) == State::ended ? State::ended : State::invalid;
  }

  bool is_in_call() const override { return false; }  // only complete calls are passed on
  std::string rest() const override { return text_.substr(at_); }

 private:
  enum class Part : std::uint8_t { name, parameters, value };
  struct ValueEnd {
    std::size_t place;  // place of the tag that ends the value
    std::size_t after;  // place where reading continues
  };

  State read(MessagePieces& pieces) {
    std::optional<State> state;
    while (!state) {
      switch (part_) {
        case Part::name:
          state = read_name();
          break;
        case Part::parameters:
          state = read_parameter(pieces);
          break;
        case Part::value:
          state = read_value();
          break;
      }
    }
    return *state;
  }

  State wait() const { return ending_ ? State::invalid : State::reads; }

  // Reads the name of a known tool. Other names are refused, because a marker in plain text would hold back
  // the rest of the text.
  std::optional<State> read_name() {
    const std::size_t begin = notation_.head.size();
    if (text_.size() < begin) return notation_.head.starts_with(text_) ? wait() : State::invalid;
    if (!text_.starts_with(notation_.head)) return State::invalid;
    const auto [match, end] = name_at(begin);
    if (match == Match::open) return wait();
    if (match == Match::no) return State::invalid;
    name_ = text_.substr(begin, end - begin);
    at_ = end + notation_.head_end.size();
    part_ = Part::parameters;
    return std::nullopt;
  }

  // Whether a tool's name is at `place`, and where the name ends.
  std::pair<Match, std::size_t> name_at(std::size_t place) const {
    const std::string_view text = std::string_view(text_).substr(place, kMaxTag);
    const bool has_mark = !notation_.head_end.empty();
    std::size_t end = has_mark ? text.find(notation_.head_end) : text.find_first_of(" \n\t\r<");
    if (end == text.npos && !has_mark && ending_) end = text.size();
    if (end != text.npos) return {tools_.contains(text.substr(0, end)) ? Match::yes : Match::no, place + end};
    const bool may_be = !ending_ && tools_.has_name_beginning_with(text, notation_.head_end);
    return {may_be ? Match::open : Match::no, place};
  }

  // Reads a parameter's name, or the end of the call.
  std::optional<State> read_parameter(MessagePieces& pieces) {
    const std::size_t at = after_blanks(at_);
    const Match key = match(at, notation_.key_begin);
    if (key == Match::yes) return read_key(at);
    const Match tail = match(at, notation_.tail);
    if (tail == Match::yes) return end_call(at + notation_.tail.size(), true, pieces);
    const Match end = match(at, end_);
    if (end == Match::yes) return end_call(at, true, pieces);
    const Match next = next_call_at(at);
    if (next == Match::yes || at == text_.size())
      return next == Match::yes || ending_ ? end_call(at, false, pieces) : State::reads;
    const bool is_open =
        key == Match::open || tail == Match::open || end == Match::open || next == Match::open;
    return is_open ? wait() : State::invalid;
  }

  std::optional<State> read_key(std::size_t at) {
    const auto [found, end] = key_end_at(at);
    if (found != Match::yes) return found == Match::open ? wait() : State::invalid;
    std::size_t value = end + notation_.key_end.size();
    types_ = tools_.types_of(name_, key_between(at, end));
    if (!notation_.value_begin.empty()) {
      const std::size_t begin = after_blanks(value);
      const Match is_value = match(begin, notation_.value_begin);
      const Match is_text = match(begin, notation_.text_begin);
      if (is_value == Match::open || is_text == Match::open) return wait();
      if (!notation_.text_begin.empty()) {
        if (is_value == Match::yes) types_ = kAnyType;
        if (is_text == Match::yes) types_ = kText;
        if (text_.substr(begin, 1) == ">") value = begin + 1;  // the attribute is missing
      }
      // Otherwise, the tag is missing.
      if (is_value == Match::yes) value = begin + notation_.value_begin.size();
      if (is_text == Match::yes) value = begin + notation_.text_begin.size();
    }
    key_ = key_between(at, end);
    value_ = scanned_ = value;
    part_ = Part::value;
    return std::nullopt;
  }

  std::string key_between(std::size_t tag, std::size_t end) const {
    const std::size_t begin = tag + notation_.key_begin.size();
    return std::string(without_blanks(std::string_view(text_).substr(begin, end - begin)));
  }

  // The end of a parameter's name in the tag at `tag`.
  std::pair<Match, std::size_t> key_end_at(std::size_t tag) const {
    const std::size_t begin = tag + notation_.key_begin.size();
    const std::size_t end = text_.find_first_of(std::string("<\n") + notation_.key_end.front(), begin);
    if (end == text_.npos) return {ending_ || text_.size() - begin > kMaxTag ? Match::no : Match::open, end};
    return {match(end, notation_.key_end), end};
  }

  std::optional<State> read_value() {
    while (true) {
      const std::size_t tag = text_.find('<', scanned_);
      scanned_ = std::min(tag, text_.size());
      ValueEnd end = {.place = tag, .after = tag};
      const Match match = tag == text_.npos ? Match::open : ends_value(end);
      if (match == Match::open && ending_ && likely_end_)
        end = *likely_end_;
      else if (match == Match::open)
        return wait();
      if (match != Match::no) {
        take_value(end);
        return std::nullopt;
      }
      ++scanned_;
    }
  }

  // Whether the tag at `end.place` ends the value, or the call if its likely end was seen before.
  Match ends_value(ValueEnd& end) {
    const Match tag = match(end.place, notation_.value_end);
    if (tag == Match::open) return Match::open;
    if (tag == Match::yes) {
      end.after = end.place + notation_.value_end.size();
      return closes_value(end);
    }
    if (likely_end_) {
      const Match next = next_call_at(end.place);
      if (next == Match::yes) end = *likely_end_;
      if (next != Match::no) return next;
    }
    const Match key = next_key_at(end.place);
    return key == Match::no ? ends_call(end, end.place, true) : key;
  }

  Match closes_value(const ValueEnd& end) {
    const std::size_t at = after_blanks(end.after);
    const Match key = match(at, notation_.key_begin);
    if (key == Match::yes) return Match::yes;
    const Match call = ends_call(end, at, false);
    return call == Match::no ? key : call;
  }

  // Whether a parameter of this tool begins at `place`, without the end tag of the value before it.
  Match next_key_at(std::size_t place) const {
    const Match tag = match(place, notation_.key_begin);
    if (tag != Match::yes) return tag;
    const auto [found, end] = key_end_at(place);
    if (found != Match::yes) return found;
    return tools_.may_have(name_, key_between(place, end)) ? Match::yes : Match::no;
  }

  // Whether the call ends at `at`, and the answer ends or the next call begins after the call's end marks. If
  // `needs_mark`, at least one end mark is needed.
  Match ends_call(const ValueEnd& end, std::size_t at, bool needs_mark) {
    bool has_mark = false;
    bool is_open = false;
    for (const std::string_view mark : {notation_.tail, std::string_view(end_)}) {
      const Match found = match(at, mark);
      is_open = is_open || found == Match::open;
      if (found != Match::yes) continue;
      has_mark = true;
      at = after_blanks(at + mark.size());
    }
    if (has_mark || !needs_mark) {
      if (at == text_.size()) return ending_ ? Match::yes : Match::open;
      const Match next = next_call_at(at);
      if (next == Match::yes) return Match::yes;
      is_open = is_open || next == Match::open;
    }
    if (is_open) return Match::open;
    if (has_mark && !likely_end_) likely_end_ = end;
    return Match::no;
  }

  Match next_call_at(std::size_t at) const {
    bool has_begin = false;
    bool is_open = false;
    for (const std::string& begin : begins_) {
      const Match found = match(at, begin);
      is_open = is_open || found == Match::open;
      if (found != Match::yes) continue;
      has_begin = true;
      at = after_blanks(at + begin.size());
      if (text_.substr(at, 1) == "{") return Match::yes;
      break;
    }
    const Match head =
        notation_.head.empty() ? (has_begin ? Match::yes : Match::no) : match(at, notation_.head);
    const Match name = head == Match::yes ? name_at(at + notation_.head.size()).first : head;
    return name == Match::no && is_open ? Match::open : name;
  }

  void take_value(const ValueEnd& end) {
    std::string_view value = std::string_view(text_).substr(value_, end.place - value_);
    const bool is_closed = end.after > end.place;
    if (notation_.has_lines && value.starts_with('\n')) value.remove_prefix(1);
    if ((notation_.has_lines || !is_closed) && value.ends_with('\n')) value.remove_suffix(1);
    const std::string json = value_as_json(value, types_);
    const auto known = std::ranges::find(keys_, key_);
    if (known == keys_.end()) {
      keys_.push_back(key_);
      values_.push_back(json);
    } else {
      values_[static_cast<std::size_t>(known - keys_.begin())] = json;
    }
    likely_end_.reset();
    at_ = end.after;
    part_ = Part::parameters;
  }

  // A call without end marks needs all parameters that its tool requires.
  State end_call(std::size_t place, bool has_mark, MessagePieces& pieces) {
    if (!has_mark && (ending_ == Ending::cut || tools_.requires_more(name_, keys_))) return State::invalid;
    at_ = place;
    std::string arguments;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const std::string key = json_text(nlohmann::json(keys_[i]));
      arguments += fmt::format("{}{}: {}", i == 0 ? "" : ", ", key, values_[i]);
    }
    append_call(pieces, name_, "{" + arguments + "}");
    return State::ended;
  }

  std::size_t after_blanks(std::size_t at) const {
    return std::min(text_.find_first_not_of(kBlanks, at), text_.size());
  }

  Match match(std::size_t at, std::string_view tag) const {
    const std::string_view there = std::string_view(text_).substr(at, tag.size());
    if (tag.empty()) return Match::no;
    if (there == tag) return Match::yes;
    return !ending_ && there.size() < tag.size() && tag.starts_with(there) ? Match::open : Match::no;
  }

  const ToolSet& tools_;
  TagNotation notation_;
  std::vector<std::string> begins_;
  std::string end_;
  std::string text_;
  std::size_t at_ = 0;  // the text before this place is decided
  Part part_ = Part::name;
  std::optional<Ending> ending_;  // set once the text is complete
  std::string name_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_;  // as JSON
  std::string key_;
  ValueTypes types_ = kAnyType;  // types of the current value
  std::size_t value_ = 0;        // beginning of the current value
  std::size_t scanned_ = 0;      // the value has no end tag before this place
  std::optional<ValueEnd> likely_end_;
};

}  // namespace

std::unique_ptr<CallReader> make_tag_reader(const ToolSet& tools, const TagNotation& notation,
                                            std::vector<std::string> begins, std::string end) {
  return std::make_unique<TagReader>(tools, notation, std::move(begins), std::move(end));
}

}  // namespace tp
