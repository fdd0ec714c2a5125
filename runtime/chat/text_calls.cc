#include "runtime/chat/text_calls.h"

#include "model/files/blanks.h"
#include "model/tokenizer/text/utf8.h"
#include "runtime/chat/json_scanner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Kind = MessagePiece::Kind;

// The first half of a pair of escapes such as \ud83d\ude00.
bool is_half(std::string_view escape) {
  return escape.size() == 6 && escape.starts_with("\\u") && (escape[2] == 'd' || escape[2] == 'D') &&
         std::string_view("89abAB").find(escape[3]) != std::string_view::npos;
}

// The text in arguments {"input": "text"}, which arrive in parts.
class ArgumentText {
 public:
  std::string push(std::string_view arguments) {
    for (const char byte : arguments) read(byte);
    return take(false);
  }

  // Returns the rest.
  std::string finish() {
    if (phase_ == Phase::text || phase_ == Phase::after) return take(true);
    const auto json = nlohmann::json::parse(raw_, nullptr, false);
    const auto input = json.is_object() ? json.value(kTextParameter, nlohmann::json()) : nlohmann::json();
    return input.is_string() ? input.get<std::string>() : raw_;
  }

 private:
  enum class Phase : std::uint8_t {
    before,
    value,  // after the parameter's name
    text,
    after,
    other,  // the first parameter is not the text
  };

  void read(char byte) {
    if (phase_ == Phase::after) return;
    raw_ += byte;
    if (phase_ == Phase::other) return;
    const JsonEvent event = scanner_.push(byte);
    if (event == JsonEvent::invalid && phase_ != Phase::text) {
      phase_ = Phase::other;
    } else if (phase_ == Phase::before) {
      if (event == JsonEvent::key)
        phase_ = scanner_.depth() == 1 && scanner_.text() == kTextParameter ? Phase::value : Phase::other;
    } else if (phase_ == Phase::value) {
      if (byte == '"')
        phase_ = Phase::text;
      else if (byte != ':' && !is_blank(byte))
        phase_ = Phase::other;
    } else if (event == JsonEvent::string || event == JsonEvent::invalid) {
      phase_ = Phase::after;
    } else {
      const std::string_view written = scanner_.written();
      if (!written.empty()) kept_ = is_half(written) ? written.size() : 0;
      json_ += written;
    }
  }

  // The complete characters so far.
  std::string take(bool is_end) {
    const std::size_t valid = utf8::valid_length(json_);
    const std::size_t size = is_end ? valid : std::min(valid, json_.size() - kept_);
    const auto text = nlohmann::json::parse('"' + json_.substr(0, size) + '"', nullptr, false);
    json_.erase(0, size);
    kept_ = std::min(kept_, json_.size());
    return text.is_string() ? text.get<std::string>() : "";
  }

  Phase phase_ = Phase::before;
  JsonScanner scanner_;
  std::string raw_;
  std::string json_;      // the text's JSON that was not passed on
  std::size_t kept_ = 0;  // bytes at the end of json_ that need the next escape
};

class TextCallReader final : public MessageReader {
 public:
  TextCallReader(std::unique_ptr<MessageReader> reader, TextTools tools)
      : reader_(std::move(reader)), tools_(std::move(tools)) {}

  MessagePieces push(std::string_view text) override { return converted(reader_->push(text)); }
  MessagePieces finish(Ending ending) override { return converted(reader_->finish(ending)); }

 private:
  MessagePieces converted(MessagePieces pieces) {
    MessagePieces result;
    for (MessagePiece& piece : pieces) {
      if (piece.kind == Kind::call && tools_.contains(piece.text)) {
        text_.emplace();
        piece.takes_text = true;
      }
      if (text_ && piece.kind == Kind::arguments) {
        append(result, Kind::arguments, text_->push(piece.text));
        continue;
      }
      if (text_ && (piece.kind == Kind::call_end || piece.kind == Kind::call_break)) {
        append(result, Kind::arguments, text_->finish());
        text_.reset();
      }
      result.push_back(std::move(piece));
    }
    return result;
  }

  std::unique_ptr<MessageReader> reader_;
  TextTools tools_;
  std::optional<ArgumentText> text_;  // text of the current call
};

}  // namespace

std::unique_ptr<MessageReader> make_text_call_reader(std::unique_ptr<MessageReader> reader, TextTools tools) {
  return std::make_unique<TextCallReader>(std::move(reader), std::move(tools));
}

}  // namespace tp
