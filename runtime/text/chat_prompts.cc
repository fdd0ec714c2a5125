#include "runtime/text/chat_prompts.h"

#include "model/tokenizer/unicode.h"
#include "tp/error.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

ChatPrompts::ChatPrompts(const Engine& engine, ChatTemplate chat_template)
    : template_(std::move(chat_template)), stop_ids_(find_stop_ids(engine)) {}

MarkedText ChatPrompts::prompt_of(Json conversation) const {
  conversation["add_generation_prompt"] = true;
  return template_.render(conversation);
}

// eos_token, and the token that the template writes after an assistant's message, which configurations of
// models fine-tuned for chat often lack.
std::vector<TokenId> ChatPrompts::find_stop_ids(const Engine& engine) const {
  std::vector<TokenId> ids;
  const std::string eos = template_.eos_token();
  if (!eos.empty()) {
    const std::vector<TokenId> tokens = engine.encode(eos, false);
    if (tokens.size() == 1) ids.push_back(tokens.front());
  }
  constexpr std::string_view kAnswer = "[the answer]";
  try {
    const Json exchange = {{{"role", "user"}, {"content", "?"}},
                           {{"role", "assistant"}, {"content", std::string(kAnswer)}}};
    const std::string text = template_.render({{"messages", exchange}}).text();
    const std::size_t place = text.rfind(kAnswer);
    if (place == std::string::npos) return ids;
    const std::string rest =
        unicode::stripped(std::string_view(text).substr(place + kAnswer.size()), true, false);
    const std::vector<TokenId> tokens = engine.encode(rest, false);
    if (!tokens.empty() && engine.is_special(tokens.front())) ids.push_back(tokens.front());
  } catch (const RequestError&) {
    // The template does not accept these messages; only eos_token is known then.
  }
  return ids;
}

}  // namespace tp
