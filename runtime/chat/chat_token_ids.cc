// The ids of tokens that chats need. Only this part of ChatPrompts uses an engine.
#include "model/tokenizer/text/unicode.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/error.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

ChatPrompts::ChatPrompts(const Engine& engine, ChatTemplate chat_template)
    : ChatPrompts(std::move(chat_template)) {
  stop_ids_ = find_stop_ids(engine);
  visible_ids_ = find_visible_ids(engine);
  end_of_thinking_ = find_end_of_thinking(engine);
}

std::vector<TokenId> ChatPrompts::find_visible_ids(const Engine& engine) const {
  std::vector<TokenId> ids;
  for (const std::string& marker : tools_.syntax().markers()) {
    const std::vector<TokenId> tokens = engine.encode(marker, false);
    if (tokens.size() == 1 && engine.is_special(tokens.front())) ids.push_back(tokens.front());
  }
  return ids;
}

// With channels, the answer's header must follow the end of thinking.
std::vector<TokenId> ChatPrompts::find_end_of_thinking(const Engine& engine) const {
  const MessageSyntax& syntax = tools_.syntax();
  const std::string next = syntax.has_channels ? "<|start|>assistant<|channel|>final<|message|>" : "";
  return syntax.thinking.empty() ? std::vector<TokenId>() : engine.encode(syntax.thinking.end + next, false);
}

// eos_token, and the token that the template writes after an assistant's message. Configurations of
// fine-tuned chat models often lack the latter.
std::vector<TokenId> ChatPrompts::find_stop_ids(const Engine& engine) const {
  std::vector<TokenId> ids;
  if (tools_.syntax().has_channels) {
    // A reply has several messages. These tokens end only the last message.
    for (const char* end : {"<|return|>", "<|call|>"}) {
      const std::vector<TokenId> tokens = engine.encode(end, false);
      if (tokens.size() == 1) ids.push_back(tokens.front());
    }
    return ids;
  }
  const std::string eos = template_.eos_token();
  if (!eos.empty()) {
    const std::vector<TokenId> tokens = engine.encode(eos, false);
    if (tokens.size() == 1) ids.push_back(tokens.front());
  }
  constexpr std::string_view kAnswer = "[the answer]";
  try {
    const nlohmann::ordered_json exchange = {{{"role", "user"}, {"content", "?"}},
                                             {{"role", "assistant"}, {"content", std::string(kAnswer)}}};
    const std::string text = template_.render({{"messages", exchange}}).text();
    const std::size_t place = text.rfind(kAnswer);
    if (place == std::string::npos) return ids;
    const std::string rest =
        unicode::stripped(std::string_view(text).substr(place + kAnswer.size()), true, false);
    const std::vector<TokenId> tokens = engine.encode(rest, false);
    if (!tokens.empty() && engine.is_special(tokens.front())) ids.push_back(tokens.front());
  } catch (const RequestError&) {
    // The template refuses these messages, so only eos_token is known.
  }
  return ids;
}

}  // namespace tp
