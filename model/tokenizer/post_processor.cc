#include "model/tokenizer/post_processor.h"

#include "model/tokenizer/json_sequence.h"
#include "model/tokenizer/vocabulary.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using HasToken = std::function<bool(TokenId)>;

// The ids that "special_tokens" of a template gives for one of its names.
std::vector<TokenId> ids_of_special_token(const JsonNode& processor, const JsonNode& name,
                                          const HasToken& has_token) {
  std::vector<TokenId> ids;
  for (const JsonNode& id : processor.at("special_tokens").at(name.string()).at("ids").elements()) {
    ids.push_back(static_cast<TokenId>(id.integer_below(kMaxVocabularySize)));
    if (!has_token(ids.back())) id.fail_type("the id of a token");
  }
  return ids;
}

PostProcessor template_from_json(const JsonNode& json, const HasToken& has_token) {
  PostProcessor result;
  bool seen_text = false;
  const JsonNode single = json.at("single");
  for (const JsonNode& piece : single.elements()) {
    if (const std::optional<JsonNode> token = piece.find("SpecialToken")) {
      const std::vector<TokenId> ids = ids_of_special_token(json, token->at("id"), has_token);
      std::vector<TokenId>& side = seen_text ? result.after : result.before;
      side.insert(side.end(), ids.begin(), ids.end());
      continue;
    }
    const JsonNode text = piece.at("Sequence").at("id");
    if (text.string() != "A" || seen_text) text.fail_type("the text 'A' once");
    seen_text = true;
  }
  if (!seen_text) single.fail("no text", "the text 'A' once");
  return result;
}

}  // namespace

PostProcessor post_processor_from_json(const JsonNode& json, const HasToken& has_token) {
  PostProcessor result;
  for_each_in_sequence(json, "processors", [&](const JsonNode& part) {
    if (part.type() == "ByteLevel") return;  // moves offsets, which tp-infer does not keep
    if (part.type() != "TemplateProcessing")
      part.fail_unsupported_type("Sequence, TemplateProcessing or ByteLevel");
    const PostProcessor outer = template_from_json(part, has_token);
    result.before.insert(result.before.begin(), outer.before.begin(), outer.before.end());
    result.after.insert(result.after.end(), outer.after.begin(), outer.after.end());
  });
  return result;
}

}  // namespace tp
