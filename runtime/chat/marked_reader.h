#pragma once

#include "runtime/chat/call_reader.h"
#include "runtime/chat/message_reader.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// Reads messages in which markers separate thinking, text and calls.
class MarkedReader final : public MessageReader {
 public:
  explicit MarkedReader(AnswerSyntax syntax);

  MessagePieces push(std::string_view text) override;
  MessagePieces finish(Ending ending) override;

 private:
  enum class Phase : std::uint8_t {
    opening,  // only white space so far
    thinking,
    text,
    call,
    broken_call,  // a call that was passed on, although its arguments are not JSON
    between,      // after a call, possibly before the next one
  };

  struct Unread {
    std::string text;
    std::size_t at = 0;
  };

  void read_unread();
  // The functions below return whether to go on; false if they need more text.
  bool step();
  bool open();
  bool think();
  bool speak();
  bool call();
  bool end_broken_call();
  bool continue_calls();

  // The place and size of the first marker in `held_`. `kept`: bytes at the end of `held_` that may be the
  // beginning of a marker.
  struct Marker {
    std::size_t place;
    std::size_t size;
    std::size_t kept;
  };
  Marker first_marker(const std::vector<const std::vector<std::string>*>& lists) const;
  bool is_wrapper(std::string_view text) const;

  // Whether `held_` begins with a call without a preceding marker.
  enum class Opening : std::uint8_t { no, yes, open };
  Opening opens_call() const;
  Opening opens_with_name() const;
  // Whether `held_` is a proper prefix of one of these texts.
  bool may_begin_with(const std::vector<std::string>& texts) const;
  std::size_t beginning_of(const std::vector<std::string>& texts) const;
  void begin_call(std::size_t marker_size);
  void follow_call(MessagePiece::Kind first, MessagePiece::Kind last);
  void end_call(CallReader::State state);
  void give_back(std::string text);
  void reject_call();
  void say(std::string_view text);
  void ponder(std::string_view text);

  AnswerSyntax syntax_;
  Phase phase_;
  std::vector<Unread> unread_{};  // texts to read; the last element comes first
  std::string held_{};            // undecided text
  MessagePieces pieces_{};        // results of the current push
  std::string space_{};           // pending white space after text or thinking
  bool skips_space_;              // skip white space before the next text or thinking
  bool has_words_ = false;        // the message has text that is not blank
  bool is_ending_ = false;        // the text is complete
  std::unique_ptr<CallReader> reader_{};
  std::string raw_{};            // text of the current calls since the last complete call
  std::size_t marker_size_ = 0;  // size of the marker at the beginning of raw_
  bool has_strict_call_ = false;
};

}  // namespace tp
