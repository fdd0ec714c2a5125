#include "runtime/chat/channel_reader.h"

#include "runtime/chat/overlap.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tp {
namespace {

using Kind = MessagePiece::Kind;

constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kRecipient = "to=functions.";
// The last two begin the next message if the end of the previous message is missing.
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                                   "<|channel|>"};
constexpr std::size_t kMaxChannelHeader = 512;

std::string_view word_after(std::string_view text, std::string_view sign) {
  const std::size_t place = text.find(sign);
  if (place == text.npos) return {};
  const std::string_view rest = text.substr(place + sign.size());
  return rest.substr(0, rest.find_first_of(" <\n"));
}

std::string_view name_in_header(std::string_view header) { return word_after(header, kRecipient); }

}  // namespace

MessagePieces ChannelReader::push(std::string_view text) {
  held_ += text;
  while (step()) {
  }
  return std::exchange(pieces_, {});
}

MessagePieces ChannelReader::finish(Ending ending) {
  is_ending_ = true;
  while (step()) {
  }
  if (has_body_)
    end_body(ending);
  else if (!has_spoken_ && held_.find("<|") == held_.npos)
    append(pieces_, Kind::text, held_);  // not written in channels
  return std::exchange(pieces_, {});
}

bool ChannelReader::step() { return has_body_ ? read_body() : read_header(); }

// Reads up to <|message|>. An overlong header is text.
bool ChannelReader::read_header() {
  const std::size_t end = held_.find(kMessage);
  if (end != held_.npos) {
    header_ = held_.substr(0, end);
    held_.erase(0, end + kMessage.size());
    begin_body();
    return true;
  }
  if (held_.size() <= kMaxChannelHeader) return false;
  header_.clear();
  begin_body();
  return true;
}

void ChannelReader::begin_body() {
  has_body_ = has_spoken_ = true;
  const std::string_view recipient = name_in_header(header_);
  if (!tools_.empty() && tools_.contains(recipient)) {
    body_ = Body::call;
    raw_ = header_ + std::string(kMessage);
    reader_ = make_headed_reader(tools_, name_in_header, {});
    for (const char byte : raw_) reader_->push(byte, pieces_);
  } else {
    body_ = word_after(header_, "<|channel|>") == "analysis" ? Body::reasoning : Body::text;
  }
}

bool ChannelReader::read_body() {
  std::size_t first = std::string::npos;
  std::size_t kept = 0;
  for (const std::string_view end : kEnds) {
    first = std::min(first, held_.find(end));
    kept = std::max(kept, overlap(held_, end));
  }
  if (first == std::string::npos) {
    const std::size_t certain = held_.size() - (is_ending_ ? 0 : kept);
    pass(std::string_view(held_).substr(0, certain));
    held_.erase(0, certain);
    return false;
  }
  pass(std::string_view(held_).substr(0, first));
  held_.erase(0, first);
  const std::string_view marker = held_;
  // The beginning of the next header is kept.
  if (!marker.starts_with("<|start|>") && !marker.starts_with("<|channel|>"))
    held_.erase(0, marker.find("|>") + 2);
  end_body(Ending::complete);
  return true;
}

void ChannelReader::pass(std::string_view text) {
  switch (body_) {
    case Body::call:
      return pass_call(text);
    case Body::reasoning:
      return append(pieces_, Kind::reasoning, text);
    case Body::broken_call:
      return append(pieces_, Kind::arguments, text);
    default:
      return append(pieces_, Kind::text, text);
  }
}

void ChannelReader::pass_call(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (body_ != Body::call) return pass(text.substr(i));
    if (!reader_) return;  // the text after the arguments
    raw_ += text[i];
    const CallReader::State state = reader_->push(text[i], pieces_);
    if (state == CallReader::State::ended) reader_.reset();
    if (state == CallReader::State::invalid) break_call(text[i]);
  }
}

// The text is not a call, or the call's arguments are not JSON.
void ChannelReader::break_call(char byte) {
  const bool has_begun = reader_->is_in_call();
  append(pieces_, has_begun ? Kind::arguments : Kind::text, has_begun ? std::string(1, byte) : raw_);
  body_ = has_begun ? Body::broken_call : Body::text;
  reader_.reset();
}

void ChannelReader::end_body(Ending ending) {
  if (reader_ && reader_->finish(ending, pieces_) == CallReader::State::invalid) {
    if (reader_->is_in_call())
      body_ = Body::broken_call;
    else
      append(pieces_, Kind::text, raw_);
  }
  if (body_ == Body::broken_call) append(pieces_, Kind::call_break, "");
  reader_.reset();
  raw_.clear();
  has_body_ = false;
  body_ = Body::none;
}

}  // namespace tp
