#pragma once

#include "runtime/chat/call_reader.h"
#include "runtime/chat/message_reader.h"

#include <cstdint>
#include <string>

namespace tp {

// Reads gpt-oss's harmony format: <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final
// <|message|>...<|return|>. A header with the recipient functions.NAME makes the message a call. The channel
// `analysis` is thinking.
class ChannelReader final : public MessageReader {
 public:
  explicit ChannelReader(ToolSet tools) : tools_(std::move(tools)) {}

  MessagePieces push(std::string_view text) override;
  MessagePieces finish(Ending ending) override;

 private:
  enum class Body : std::uint8_t { none, text, reasoning, call, broken_call };

  bool step();
  bool read_header();
  void begin_body();
  bool read_body();
  void pass(std::string_view text);
  void pass_call(std::string_view text);
  void break_call(char byte);
  void end_body(Ending ending);

  ToolSet tools_;
  std::string held_{};
  MessagePieces pieces_{};
  Body body_ = Body::none;
  bool has_body_ = false;    // a header is complete, but its body is not
  bool has_spoken_ = false;  // a body has begun before
  bool is_ending_ = false;
  std::string header_{};
  std::unique_ptr<CallReader> reader_{};
  std::string raw_{};  // text of the call so far
};

}  // namespace tp
