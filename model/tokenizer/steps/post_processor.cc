#include "model/tokenizer/steps/post_processor.h"

#include "model/tokenizer/steps/json_sequence.h"
#include "model/tokenizer/text/vocabulary.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using HasToken = std::function<bool(TokenId)>;

// The ids of a name in a template, which "special_tokens" defines.
std::vector<TokenId> ids_of_special_token(const JsonNode& processor, const JsonNode& name,
                                          const HasToken& has_token) {
  std::vector<TokenId> ids;
  for (const JsonNode& id : processor.at("special_tokens").at(name.string()).at("ids").elements()) {
    ids.push_back(static_cast<TokenId>(id.integer_below(kMaxVocabularySize)));
    if (!has_token(ids.back())) id.fail_type("the id of a token");
  }
  return ids;
}

std::vector<PostProcessor::PairPiece> pair_from_json(const JsonNode& processor, const JsonNode& pair,
                                                     const HasToken& has_token) {
  using Kind = PostProcessor::PairPiece::Kind;
  std::vector<PostProcessor::PairPiece> pieces;
  for (const JsonNode& piece : pair.elements()) {
    const std::optional<JsonNode> token = piece.find("SpecialToken");
    const JsonNode part = token ? *token : piece.at("Sequence");
    const auto type = static_cast<std::uint8_t>(part.at("type_id").integer_below(256));
    const JsonNode id = part.at("id");
    if (token) {
      for (const TokenId special : ids_of_special_token(processor, id, has_token))
        pieces.push_back({Kind::token, special, type});
      continue;
    }
    if (id.string() != "A" && id.string() != "B") id.fail_type("the text 'A' or 'B'");
    pieces.push_back({id.string() == "A" ? Kind::first_text : Kind::second_text, 0, type});
  }
  return pieces;
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
  if (const std::optional<JsonNode> pair = json.find("pair"))
    result.pair = pair_from_json(json, *pair, has_token);
  return result;
}

// Reads "cls" or "sep" of a BertProcessing: a token and its id.
TokenId id_of_pair(const JsonNode& pair, const HasToken& has_token) {
  const std::vector<JsonNode> elements = pair.elements();
  if (elements.size() != 2) pair.fail_type("a token and its id");
  const auto id = static_cast<TokenId>(elements[1].integer_below(kMaxVocabularySize));
  if (!has_token(id)) elements[1].fail_type("the id of a token");
  return id;
}

// BERT gives the second text and its end type 1. RoBERTa has an additional separator instead.
PostProcessor control_tokens_around(TokenId cls, TokenId sep, bool has_types) {
  using Kind = PostProcessor::PairPiece::Kind;
  PostProcessor result{{cls}, {sep}};
  result.pair = {{Kind::token, cls}, {Kind::first_text}, {Kind::token, sep}};
  const std::uint8_t type = has_types ? 1 : 0;
  if (!has_types) result.pair.push_back({Kind::token, sep});
  result.pair.push_back({Kind::second_text, 0, type});
  result.pair.push_back({Kind::token, sep, type});
  return result;
}

PostProcessor part_of_post_processor(const JsonNode& json, const HasToken& has_token) {
  const std::string& type = json.type();
  if (type == "ByteLevel") return {};  // ByteLevel only changes offsets, which tp-infer does not keep
  if (type == "TemplateProcessing") return template_from_json(json, has_token);
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return control_tokens_around(id_of_pair(json.at("cls"), has_token), id_of_pair(json.at("sep"), has_token),
                                 type == "BertProcessing");
  json.fail_unsupported_type("Sequence, TemplateProcessing, BertProcessing, RobertaProcessing or ByteLevel");
}

}  // namespace

PostProcessor post_processor_from_json(const JsonNode& json, const HasToken& has_token) {
  PostProcessor result;
  for_each_in_sequence(json, "processors", [&](const JsonNode& part) {
    const PostProcessor outer = part_of_post_processor(part, has_token);
    result.before.insert(result.before.begin(), outer.before.begin(), outer.before.end());
    result.after.insert(result.after.end(), outer.after.begin(), outer.after.end());
    if (!outer.pair.empty()) result.pair = outer.pair;
  });
  return result;
}

}  // namespace tp
