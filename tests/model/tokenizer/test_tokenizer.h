// Tokenizers for tests.
#pragma once

#include "model/files/json_node.h"
#include "model/tokenizer/tokenizer.h"

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::testing {

// Loads a tokenizer.json with this content and, unless it is null, a tokenizer_config.json.
Tokenizer load_tokenizer(const nlohmann::json& content, const nlohmann::json& config = nullptr);

// A byte-level BPE tokenizer. Ids 0-255 are the bytes. Each merge ("a b") adds a token. <|end|> is the last
// token and special. Splits words like GPT-2.
nlohmann::json byte_level_json(const std::vector<std::string>& merges = {});

// A tokenizer like Llama 2's SentencePiece. Ids 0-255 are the tokens <0xNN>, followed by <unk>, <s>, </s>,
// the characters of `characters`, and a token for every merge. The decoder is Llama 2's.
nlohmann::json byte_fallback_json(const std::vector<std::string>& characters,
                                  const std::vector<std::string>& merges);

// A Unigram tokenizer. <unk> is 0, followed by these tokens. A token's score is minus its place. Spaces are
// ▁.
nlohmann::json unigram_json(const std::vector<std::string>& tokens);

// A BPE model of these tokens, whose ids are their places.
nlohmann::json bpe_json(const std::vector<std::string>& tokens, const std::vector<std::string>& merges = {});

// Returns a part of a tokenizer.json without a file.
JsonNode node_of(const nlohmann::json& json);

// Returns the message of the CheckpointError when this tokenizer.json is loaded. Without an error, the test
// fails.
std::string error_of_loading(const std::string& content);

nlohmann::json read_json(const std::filesystem::path& file);

// Returns characters of all lengths in random order, mixed with words, spaces and broken UTF-8.
std::string random_text(std::mt19937& random, std::size_t pieces);

}  // namespace tp::testing
