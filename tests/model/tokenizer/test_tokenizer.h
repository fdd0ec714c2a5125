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

// A folder for the files of one test, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

// Loads a tokenizer.json with this content and, unless it is null, a tokenizer_config.json.
Tokenizer load_tokenizer(const nlohmann::json& content, const nlohmann::json& config = nullptr);

// A byte-level BPE tokenizer: ids 0-255 are the bytes, then one for every merge ("a b"), then <|end|> as
// special token. It splits words as GPT-2 does.
nlohmann::json byte_level_json(const std::vector<std::string>& merges = {});

// A SentencePiece-like tokenizer as Llama 2's: ids 0-255 are the tokens <0xNN>, then <unk>, <s>, </s>, then
// the characters of `characters`, then one for every merge. Its decoder is Llama 2's.
nlohmann::json byte_fallback_json(const std::vector<std::string>& characters,
                                  const std::vector<std::string>& merges);

// A Unigram tokenizer: <unk> is 0, then these tokens, each with a score of minus its place. Spaces are ▁.
nlohmann::json unigram_json(const std::vector<std::string>& tokens);

// A BPE model of these tokens, whose ids are their places.
nlohmann::json bpe_json(const std::vector<std::string>& tokens, const std::vector<std::string>& merges = {});

// A part of a tokenizer.json that came from no file.
JsonNode node_of(const nlohmann::json& json);

// The message of the CheckpointError that loading this tokenizer.json fails with; fails the test if it does
// not.
std::string error_of_loading(const std::string& content);

nlohmann::json read_json(const std::filesystem::path& file);

// Some characters of all lengths in random order, with words, spaces and broken UTF-8 between them.
std::string random_text(std::mt19937& random, std::size_t pieces);

}  // namespace tp::testing
