#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/steps/byte_level_split.h"
#include "model/tokenizer/steps/metaspace.h"
#include "model/tokenizer/steps/split.h"

#include <variant>
#include <vector>

namespace tp {

using PreTokenizerPart = std::variant<Split, ByteLevelSplit, Metaspace>;

// Cuts a text step by step into the pieces that the token model sees.
class PreTokenizer {
 public:
  PreTokenizer() = default;

  explicit PreTokenizer(std::vector<PreTokenizerPart> parts) : parts_(std::move(parts)) {}

  // BERT's pre-tokenizer: removes white space, and makes each punctuation mark a piece.
  static PreTokenizer bert();

  // `json`: the value of "pre_tokenizer". Throws CheckpointError.
  static PreTokenizer from_json(const JsonNode& json);

  // Throws RequestError if a pattern needs too many steps.
  void operator()(PreTokens& tokens) const;

 private:
  std::vector<PreTokenizerPart> parts_;
};

}  // namespace tp
