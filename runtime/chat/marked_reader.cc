#include "runtime/chat/marked_reader.h"

#include "model/files/blanks.h"
#include "runtime/chat/call_readers.h"
#include "runtime/chat/overlap.h"

#include <algorithm>
#include <utility>

namespace tp {
namespace {

using Kind = MessagePiece::Kind;

constexpr std::size_t kMaxReread = 1024;
constexpr std::size_t kReadSlice = 4096;

}  // namespace

MarkedReader::MarkedReader(AnswerSyntax syntax)
    : syntax_(std::move(syntax)),
      phase_(syntax_.begins_thinking ? Phase::thinking : Phase::opening),
      skips_space_(syntax_.begins_thinking) {}

MessagePieces MarkedReader::push(std::string_view text) {
  unread_.push_back({.text = std::string(text)});
  read_unread();
  return std::exchange(pieces_, {});
}

// Reads in slices, because erasing the beginning of a long `held_` again and again is slow.
void MarkedReader::read_unread() {
  while (!unread_.empty()) {
    Unread& next = unread_.back();
    held_ += std::string_view(next.text).substr(next.at, kReadSlice);
    next.at += kReadSlice;
    if (next.at >= next.text.size()) unread_.pop_back();
    while (step()) {
    }
  }
}

MessagePieces MarkedReader::finish(Ending ending) {
  while (true) {
    is_ending_ = false;
    read_unread();
    is_ending_ = true;
    while (step()) {
    }
    if (!unread_.empty()) continue;
    if (phase_ != Phase::call) break;
    end_call(reader_ ? reader_->finish(ending, pieces_) : CallReader::State::invalid);
  }
  if (phase_ == Phase::broken_call) append(pieces_, Kind::call_break, "");
  // Trailing white space belongs to the final text, but not to thinking or to a text before calls.
  if (phase_ == Phase::text || phase_ == Phase::opening) append(pieces_, Kind::text, space_ + held_);
  return std::exchange(pieces_, {});
}

bool MarkedReader::step() {
  switch (phase_) {
    case Phase::opening:
      return open();
    case Phase::thinking:
      return think();
    case Phase::text:
      return speak();
    case Phase::call:
      return call();
    case Phase::broken_call:
      return end_broken_call();
    case Phase::between:
      return continue_calls();
  }
  return false;
}

bool MarkedReader::may_begin_with(const std::vector<std::string>& texts) const {
  return !is_ending_ && std::ranges::any_of(texts, [&](const std::string& text) {
    return text.size() > held_.size() && text.starts_with(held_);
  });
}

std::size_t MarkedReader::beginning_of(const std::vector<std::string>& texts) const {
  std::size_t size = 0;
  for (const std::string& text : texts) {
    if (held_.starts_with(text)) size = std::max(size, text.size());
  }
  return size;
}

// An answer begins with thinking, a call, or text.
bool MarkedReader::open() {
  const std::size_t first = std::min(held_.find_first_not_of(kBlanks), held_.size());
  if (!skips_space_) space_ += held_.substr(0, first);
  held_.erase(0, first);
  if (held_.empty()) return false;
  const std::string& thinking = syntax_.syntax.thinking.begin;
  if (!thinking.empty() && held_.starts_with(thinking)) {
    held_.erase(0, thinking.size());
    space_.clear();
    skips_space_ = true;
    phase_ = Phase::thinking;
    return true;
  }
  if (!thinking.empty() && may_begin_with({thinking})) return false;
  const Opening opening = syntax_.tools.empty() ? Opening::no : opens_call();
  if (opening == Opening::open) return false;
  if (opening == Opening::yes) {
    has_strict_call_ = true;
    begin_call(0);
  } else {
    phase_ = Phase::text;
  }
  return true;
}

MarkedReader::Opening MarkedReader::opens_call() const {
  const CallNotation& calls = syntax_.syntax.calls;
  const bool is_json = held_.front() == '{' && (calls.may_open_answer || !calls.heads.empty());
  if (is_json || (held_.front() == '[' && calls.may_open_answer)) return Opening::yes;
  const bool is_name = calls.form == CallForm::glm && calls.may_open_answer;
  if (is_name || std::ranges::find(calls.heads, kKeysAndValues.key_begin) != calls.heads.end())
    return opens_with_name();
  return Opening::no;
}

// Accepts NAME, a new line and a brace (GLM-4), or NAME and the first tag (GLM-4.5).
MarkedReader::Opening MarkedReader::opens_with_name() const {
  const bool is_line = syntax_.syntax.calls.form == CallForm::glm;
  const std::size_t end = held_.find_first_of(is_line ? "\n" : "<\n");
  if (end == held_.npos) {
    const bool may_be = !is_ending_ && syntax_.tools.has_name_beginning_with(held_, is_line ? "\n" : "<");
    return may_be ? Opening::open : Opening::no;
  }
  const std::string_view text = held_;
  if (!syntax_.tools.contains(without_trailing_blanks(text.substr(0, end)))) return Opening::no;
  if (is_line) return Opening::yes;
  const std::string_view rest = text.substr(std::min(text.find_first_not_of(kBlanks, end), text.size()));
  if (rest.starts_with(kKeysAndValues.key_begin)) return Opening::yes;
  return !is_ending_ && kKeysAndValues.key_begin.starts_with(rest) ? Opening::open : Opening::no;
}

bool MarkedReader::think() {
  const ThinkingMarkers& markers = syntax_.syntax.thinking;
  // Some models repeat the marker at the end of the prompt.
  if (skips_space_) {
    held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
    if (held_.empty() || may_begin_with({markers.begin})) return false;
    if (held_.starts_with(markers.begin)) {
      held_.erase(0, markers.begin.size());
      return true;
    }
    skips_space_ = false;
  }
  const std::vector<std::string> ends = {markers.end};
  const bool ends_by_call = syntax_.syntax.calls.may_end_thinking && !syntax_.tools.empty();
  static const std::vector<std::string> kNone;
  const std::vector<std::string>& calls = ends_by_call ? syntax_.syntax.calls.begins : kNone;
  const Marker end = first_marker({&ends, &calls});
  if (end.place != held_.npos) {
    ponder(std::string_view(held_).substr(0, end.place));
    const bool is_end = std::string_view(held_).substr(end.place).starts_with(markers.end);
    held_.erase(0, end.place + (is_end ? markers.end.size() : 0));
    space_.clear();
    skips_space_ = true;
    // After thinking, the answer may also open with a call.
    phase_ = is_end ? Phase::opening : Phase::text;
    return true;
  }
  const std::size_t certain = held_.size() - (is_ending_ ? 0 : end.kept);
  ponder(std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return false;
}

MarkedReader::Marker MarkedReader::first_marker(
    const std::vector<const std::vector<std::string>*>& lists) const {
  Marker first = {.place = held_.npos, .size = 0, .kept = 0};
  for (const auto* markers : lists) {
    for (const std::string& marker : *markers) {
      const std::size_t place = held_.find(marker);
      if (place < first.place || (place == first.place && marker.size() > first.size))
        first.size = marker.size();
      first.place = std::min(first.place, place);
      first.kept = std::max(first.kept, overlap(held_, marker));
    }
  }
  return first;
}

bool MarkedReader::is_wrapper(std::string_view text) const {
  return std::ranges::find(syntax_.syntax.wrappers, text) != syntax_.syntax.wrappers.end();
}

bool MarkedReader::speak() {
  const CallNotation& calls = syntax_.syntax.calls;
  static const std::vector<std::string> kNone;
  const bool has_calls = !syntax_.tools.empty() && !(syntax_.calls_come_first && has_words_);
  const Marker marker =
      first_marker({&syntax_.syntax.wrappers, has_calls ? &calls.begins : &kNone,
                    has_calls ? &calls.sections : &kNone, has_calls ? &calls.heads : &kNone});
  if (marker.place == held_.npos) {
    const std::size_t certain = held_.size() - (is_ending_ ? 0 : marker.kept);
    say(std::string_view(held_).substr(0, certain));
    held_.erase(0, certain);
    return false;
  }
  say(std::string_view(held_).substr(0, marker.place));
  held_.erase(0, marker.place);
  const std::string_view text = std::string_view(held_).substr(0, marker.size);
  if (syntax_.calls_come_first && has_words_ && !is_wrapper(text)) return true;
  has_strict_call_ = false;
  if (is_wrapper(text)) {
    // White space before the end marker is not part of the text.
    if (text == syntax_.syntax.wrappers.back()) space_.clear();
    held_.erase(0, marker.size);
  } else if (std::ranges::find(calls.heads, text) != calls.heads.end()) {
    begin_call(0);
  } else if (beginning_of(calls.begins) == marker.size) {
    begin_call(marker.size);
  } else {
    held_.erase(0, marker.size);
    space_.clear();
    phase_ = Phase::between;
  }
  return true;
}

void MarkedReader::begin_call(std::size_t marker_size) {
  phase_ = Phase::call;
  raw_ = held_.substr(0, marker_size);
  marker_size_ = marker_size;
  held_.erase(0, marker_size);
  reader_.reset();
}

bool MarkedReader::call() {
  std::size_t read = 0;
  for (; read < held_.size(); ++read) {
    const char byte = held_[read];
    raw_ += byte;
    if (!reader_ && is_blank(byte)) continue;
    if (!reader_) reader_ = make_call_reader(syntax_.syntax.calls, syntax_.tools, has_strict_call_, byte);
    const std::size_t before = pieces_.size();
    const CallReader::State state = reader_ ? reader_->push(byte, pieces_) : CallReader::State::invalid;
    if (pieces_.size() > before) follow_call(pieces_[before].kind, pieces_.back().kind);
    if (state == CallReader::State::reads) continue;
    const bool is_broken = state == CallReader::State::invalid && reader_ && reader_->is_in_call();
    held_.erase(0, read + (is_broken ? 0 : 1));
    end_call(state);
    return true;
  }
  held_.clear();
  return false;
}

// White space before a call is not part of the message, unless the text turns out not to be a call.
void MarkedReader::follow_call(MessagePiece::Kind first, MessagePiece::Kind last) {
  if (first == Kind::call) raw_.insert(0, std::exchange(space_, {}));
  if (last != Kind::call_end) return;
  raw_.clear();
  marker_size_ = 0;
}

void MarkedReader::end_call(CallReader::State state) {
  if (state == CallReader::State::invalid) return reject_call();
  follow_call(Kind::call, Kind::call_end);
  give_back(reader_->rest());
  phase_ = Phase::between;
}

// Queues a text to be read again, before the text that follows it. A long text may be the whole answer.
void MarkedReader::give_back(std::string text) {
  text += std::exchange(held_, {});
  if (text.size() <= 2 * kReadSlice)
    held_ = std::move(text);
  else
    unread_.push_back({.text = std::move(text)});
}

// Converts a supposed call to text, unless the call was already passed on.
void MarkedReader::reject_call() {
  const bool has_begun = reader_ && reader_->is_in_call();
  reader_.reset();
  if (has_begun) {
    phase_ = Phase::broken_call;
    return;
  }
  phase_ = Phase::text;
  // Another call may begin within the text.
  const std::size_t certain =
      raw_.size() <= kMaxReread ? std::max<std::size_t>(marker_size_, 1) : raw_.size();
  say(std::string_view(raw_).substr(0, certain));
  held_.insert(0, raw_, std::min(certain, raw_.size()));
}

// All text up to the next end marker belongs to the call.
bool MarkedReader::end_broken_call() {
  const std::vector<std::string> ends = ends_of(syntax_.syntax.calls);
  const Marker end = first_marker({&ends});
  const std::size_t kept = is_ending_ ? 0 : end.kept;
  const std::size_t certain = std::min(end.place, held_.size() - kept);
  append(pieces_, Kind::arguments, std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  if (end.place == held_.npos) return false;
  append(pieces_, Kind::call_break, "");
  phase_ = Phase::between;
  return true;
}

bool MarkedReader::continue_calls() {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (held_.empty()) return false;
  const CallNotation& calls = syntax_.syntax.calls;
  const Opening opening = opens_call();
  if (may_begin_with(calls.begins) || may_begin_with(calls.fillers) || may_begin_with(calls.heads) ||
      opening == Opening::open)
    return false;
  if (const std::size_t size = beginning_of(calls.begins); size > 0) {
    has_strict_call_ = false;
    begin_call(size);
  } else if (const std::size_t filler = beginning_of(calls.fillers); filler > 0) {
    held_.erase(0, filler);
  } else if (beginning_of(calls.heads) > 0) {
    has_strict_call_ = false;
    begin_call(0);
  } else if (opening == Opening::yes && held_.front() != '[') {
    has_strict_call_ = true;
    begin_call(0);
  } else {
    skips_space_ = true;
    phase_ = Phase::text;
  }
  return true;
}

void MarkedReader::say(std::string_view text) {
  if (skips_space_) text = without_leading_blanks(text);
  const std::string_view words = without_trailing_blanks(text);
  if (!words.empty()) {
    append(pieces_, Kind::text, std::exchange(space_, {}));
    append(pieces_, Kind::text, words);
    skips_space_ = false;
    has_words_ = true;
  }
  space_ += text.substr(words.size());
}

void MarkedReader::ponder(std::string_view text) {
  const std::string_view words = without_trailing_blanks(text);
  if (!words.empty()) {
    append(pieces_, Kind::reasoning, std::exchange(space_, {}));
    append(pieces_, Kind::reasoning, words);
  }
  space_ += text.substr(words.size());
}

}  // namespace tp
