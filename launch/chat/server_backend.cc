#include "launch/chat/server_backend.h"

#include "runtime/api/rounded.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::json;
using Body = nlohmann::ordered_json;

// Returns a member of a value of any type, or null.
const Json& member(const Json& object, const char* name) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

std::size_t count_in(const Json& object, const char* name) {
  const Json& count = member(object, name);
  return count.is_number_unsigned() ? count.get<std::size_t>() : 0;
}

std::string text_in(const Json& object, const char* name) {
  const Json& text = member(object, name);
  return text.is_string() ? text.get<std::string>() : "";
}

// Sets only the options given on the command line. The server has its own defaults.
void set_sampling(const SamplingFlags& flags, Body& request) {
  const auto set_float = [&](const char* name, const std::optional<float>& value) {
    if (value) request[name] = rounded(*value);
  };
  request["max_tokens"] = flags.max_tokens.value_or(kDefaultMaxTokens);
  set_float("temperature", flags.greedy ? 0.0F : flags.temperature);
  set_float("top_p", flags.top_p);
  set_float("min_p", flags.min_p);
  set_float("repetition_penalty", flags.repetition_penalty);
  set_float("presence_penalty", flags.presence_penalty);
  set_float("frequency_penalty", flags.frequency_penalty);
  if (flags.top_k) request["top_k"] = *flags.top_k;
  if (flags.seed) request["seed"] = *flags.seed;
  if (flags.ignore_eos) request["ignore_eos"] = true;
  if (flags.max_thinking_tokens) request["max_thinking_tokens"] = *flags.max_thinking_tokens;
  if (flags.min_tokens > 0) request["min_tokens"] = flags.min_tokens;
  if (!flags.stop.empty()) request["stop"] = flags.stop;
  if (flags.include_stop) request["include_stop_str_in_output"] = true;
  if (!flags.bad_words.empty()) request["bad_words"] = flags.bad_words;
}

// Reads the message that is in the chunks of a stream.
class DeltaReader {
 public:
  MessagePieces read(const Json& delta) {
    MessagePieces pieces;
    // Servers use different names.
    for (const char* name : {"reasoning_content", "reasoning"})
      append(pieces, MessagePiece::Kind::reasoning, text_in(delta, name));
    append(pieces, MessagePiece::Kind::text, text_in(delta, "content"));
    const Json& calls = member(delta, "tool_calls");
    if (!calls.is_array()) return pieces;
    for (const Json& call : calls) read_call(call, pieces);
    return pieces;
  }

  MessagePieces finish() {
    MessagePieces pieces;
    end_call(pieces);
    return pieces;
  }

  // Adopts the server's ids.
  void give_ids(Message& message) const {
    for (std::size_t i = 0; i < std::min(ids_.size(), message.calls.size()); ++i)
      message.calls[i].id = ids_[i];
  }

 private:
  void read_call(const Json& call, MessagePieces& pieces) {
    const Json& function = member(call, "function");
    if (const std::string name = text_in(function, "name"); !name.empty()) {
      end_call(pieces);
      ids_.push_back(text_in(call, "id"));
      is_in_call_ = true;
      append(pieces, MessagePiece::Kind::call, name);
    }
    if (is_in_call_) append(pieces, MessagePiece::Kind::arguments, text_in(function, "arguments"));
  }

  void end_call(MessagePieces& pieces) {
    if (std::exchange(is_in_call_, false)) append(pieces, MessagePiece::Kind::call_end, "");
  }

  std::vector<std::string> ids_;
  bool is_in_call_ = false;
};

FinishReason reason_of(const std::string& name) {
  return name == "length" ? FinishReason::length : FinishReason::stop;
}

// The names are llama.cpp's. tp-infer serve uses them, too.
std::string timings_in(const Json& timings) {
  const auto number = [&](const char* name) {
    const Json& value = member(timings, name);
    return value.is_number() ? value.get<double>() : 0.0;
  };
  if (number("predicted_ms") <= 0.0) return {};
  return fmt::format("on the server {:.2f} s for the prompt, then {:.1f} tokens/s", number("prompt_ms") / 1e3,
                     number("predicted_per_second"));
}

}  // namespace

ServerBackend::ServerBackend(ServerClient& client, ServedModel model, SamplingFlags sampling)
    : client_(client), model_(std::move(model)), sampling_(std::move(sampling)) {}

Body ServerBackend::request_of(const Body& conversation) const {
  Body request = conversation;  // includes `tools`, for example
  request["model"] = model_.name;
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  set_sampling(sampling_, request);
  return request;
}

ChatAnswer ServerBackend::answer(const Body& conversation, const ChatListener& listener) {
  ChatAnswer answer;
  answer.max_tokens = static_cast<std::size_t>(sampling_.max_tokens.value_or(kDefaultMaxTokens));
  DeltaReader reader;
  const auto receive = [&](const Json& chunk) {
    const Json& usage = member(chunk, "usage");
    if (usage.is_object()) {
      answer.usage = {.prompt_tokens = count_in(usage, "prompt_tokens"),
                      .cached_tokens = count_in(member(usage, "prompt_tokens_details"), "cached_tokens"),
                      .tokens = count_in(usage, "completion_tokens")};
    }
    if (member(chunk, "timings").is_object()) answer.timings = timings_in(member(chunk, "timings"));
    const Json& choices = member(chunk, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const MessagePieces pieces = reader.read(member(choices.front(), "delta"));
    for (MessagePiece piece : pieces) answer.message.add(piece);
    reader.give_ids(answer.message);
    if (!pieces.empty()) listener.write(pieces);
    const std::string reason = text_in(choices.front(), "finish_reason");
    if (!reason.empty()) answer.reason = reason_of(reason);
  };
  client_.chat(request_of(conversation), receive, [&] {
    if (!listener.stops()) return true;
    answer.reason = FinishReason::cancelled;
    return false;
  });
  const MessagePieces last = reader.finish();
  for (MessagePiece piece : last) answer.message.add(piece);
  listener.write(last);
  return answer;
}

}  // namespace tp
