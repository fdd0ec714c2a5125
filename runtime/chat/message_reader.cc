#include "runtime/chat/message_reader.h"

#include "runtime/chat/channel_reader.h"
#include "runtime/chat/marked_reader.h"
#include "runtime/chat/text_calls.h"

#include <algorithm>
#include <utility>

namespace tp {
namespace {

class PlainReader final : public MessageReader {
 public:
  MessagePieces push(std::string_view text) override {
    MessagePieces pieces;
    append(pieces, MessagePiece::Kind::text, text);
    return pieces;
  }
  MessagePieces finish(Ending) override { return {}; }
};

// Passes on the pieces up to the end of the first call.
class FirstCallReader final : public MessageReader {
 public:
  explicit FirstCallReader(std::unique_ptr<MessageReader> reader) : reader_(std::move(reader)) {}

  MessagePieces push(std::string_view text) override {
    return has_called_ ? MessagePieces() : cut(reader_->push(text));
  }
  MessagePieces finish(Ending ending) override {
    return has_called_ ? MessagePieces() : cut(reader_->finish(ending));
  }

 private:
  MessagePieces cut(MessagePieces pieces) {
    const auto end = std::ranges::find_if(pieces, [](const MessagePiece& piece) {
      return piece.kind == MessagePiece::Kind::call_end || piece.kind == MessagePiece::Kind::call_break;
    });
    has_called_ = end != pieces.end();
    if (has_called_) pieces.erase(end + 1, pieces.end());
    return pieces;
  }

  std::unique_ptr<MessageReader> reader_;
  bool has_called_ = false;
};

bool is_plain_syntax(const AnswerSyntax& syntax) {
  return syntax.is_plain || (!syntax.syntax.has_channels && syntax.syntax.thinking.empty() &&
                             syntax.syntax.wrappers.empty() && syntax.tools.empty());
}

}  // namespace

std::unique_ptr<MessageReader> make_message_reader(AnswerSyntax syntax) {
  if (is_plain_syntax(syntax)) return std::make_unique<PlainReader>();
  if (std::exchange(syntax.has_one_call, false))
    return std::make_unique<FirstCallReader>(make_message_reader(std::move(syntax)));
  if (TextTools tools = std::exchange(syntax.text_tools, {}); !tools.empty())
    return make_text_call_reader(make_message_reader(std::move(syntax)), std::move(tools));
  if (syntax.syntax.has_channels) return std::make_unique<ChannelReader>(std::move(syntax.tools));
  return std::make_unique<MarkedReader>(std::move(syntax));
}

Message read_message(const AnswerSyntax& syntax, std::string_view text, Ending ending) {
  Message message;
  const std::unique_ptr<MessageReader> reader = make_message_reader(syntax);
  for (MessagePiece piece : reader->push(text)) message.add(piece);
  for (MessagePiece piece : reader->finish(ending)) message.add(piece);
  return message;
}

}  // namespace tp
