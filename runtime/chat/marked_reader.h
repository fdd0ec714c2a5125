#pragma once

#include "runtime/chat/call_reader.h"
#include "runtime/chat/message_reader.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Reads messages in which markers divide thinking, text and calls.
class MarkedReader final : public MessageReader {
 public:
  explicit MarkedReader(AnswerSyntax syntax);

  MessagePieces push(std::string_view text) override;
  MessagePieces finish(Ending ending) override;

 private:
  enum class Phase : std::uint8_t {
    opening,  // nothing but white space so far
    thinking,
    text,
    call,
    broken_call,  // a call that has been passed on, and whose arguments are no JSON
    between,      // after a call, where another may follow
  };

  struct Unread {
    std::string text;
    std::size_t at = 0;
  };

  void read_unread();
  // They return whether to go on: not, if more text is needed.
  bool step();
  bool open();
  bool think();
  bool speak();
  bool call();
  bool end_broken_call();
  bool continue_calls();

  // The first of some markers in `held_`: where it is and how long. Of the markers, `kept` bytes may have
  // begun at the end of `held_`.
  struct Marker {
    std::size_t place;
    std::size_t size;
    std::size_t kept;
  };
  Marker first_marker(const std::vector<const std::vector<std::string>*>& lists) const;
  bool is_wrapper(std::string_view text) const;

  // Whether `held_` begins with a call that has no marker before it.
  enum class Opening : std::uint8_t { no, yes, open };
  Opening opens_call() const;
  Opening opens_with_name() const;
  // Whether `held_` may begin with one of these texts, of which it has only a part.
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
  std::vector<Unread> unread_{};  // texts that have to be read; the last one comes first
  std::string held_{};            // not decided yet
  MessagePieces pieces_{};        // decided by the current push
  std::string space_{};           // white space after what was said or thought, which may be the end of it
  bool skips_space_;              // before the next thing said or thought
  bool is_ending_ = false;        // no more text comes
  std::unique_ptr<CallReader> reader_{};
  std::string raw_{};            // what the call is made of, since the last complete one
  std::size_t marker_size_ = 0;  // of it, before the call itself
  bool has_strict_call_ = false;
};

}  // namespace tp
