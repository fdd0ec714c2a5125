#include "runtime/serve/tokenizer_info.h"

#include "runtime/text/bos.h"
#include "tp/engine.h"

#include <optional>
#include <string>
#include <vector>

namespace tp {

using Json = nlohmann::ordered_json;

Json tokenizer_info_of(const Engine& engine, const std::filesystem::path& model,
                       const std::optional<ChatTemplate>& chat) {
  Json info = {{"eos_token", nullptr}, {"bos_token", nullptr}, {"pad_token", nullptr}};
  if (engine.has_tokenizer()) {
    // Some files don't name these tokens. Then BOS is the control token before a text, and EOS ends it.
    if (const std::optional<TokenId> bos = bos_of(engine)) info["bos_token"] = engine.bytes_of(*bos);
    const std::vector<TokenId>& ends = engine.info().eos_token_ids;
    if (!ends.empty() && !engine.bytes_of(ends.front()).empty())
      info["eos_token"] = engine.bytes_of(ends.front());
    info.update(chat ? chat->special_tokens() : ChatTemplate::special_tokens_in(model));
  }
  info["chat_template"] = chat ? Json(std::string(chat->usual_source())) : Json();
  info["model_max_length"] = engine.info().options.max_length;
  return info;
}

}  // namespace tp
