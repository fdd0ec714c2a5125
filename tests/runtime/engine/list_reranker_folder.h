// The fixture of Jina Reranker 3 with a tokenizer whose tokens are single characters.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/fixture.h"
#include "tests/reference/json_file.h"
#include "tp/token_id.h"

#include <filesystem>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp::test {

// Printable ASCII characters, spaces and line breaks have tokens. The control tokens are <|im_start|>,
// <|im_end|>, and the two marks with the fixture's ids.
class ListRerankerFolder {
 public:
  static constexpr TokenId kTurn = 100;
  static constexpr TokenId kTurnEnd = 101;
  static constexpr TokenId kDocument = 254;
  static constexpr TokenId kQuery = 255;

  ListRerankerFolder() {
    using nlohmann::json;
    const std::filesystem::path fixture = reference::seeded_folder("rerank", "jina-reranker-v3");
    std::filesystem::copy(fixture, path(), std::filesystem::copy_options::recursive);
    json config = reference::read_json(fixture / "config.json");
    config["projector_dim"] = 24;  // 512 in published checkpoints
    config["max_position_embeddings"] = 8192;
    directory_.write("config.json", config.dump());
    json vocabulary = {{"\u0120", 0}, {"\u010A", 1}};  // a byte-level space and line break
    for (char character = '!'; character <= '~'; ++character)
      vocabulary[std::string(1, character)] = vocabulary.size();
    json control = json::array();
    for (const auto& [content, id] : {std::pair("<|im_start|>", kTurn),
                                      {"<|im_end|>", kTurnEnd},
                                      {"<|embed_token|>", kDocument},
                                      {"<|rerank_token|>", kQuery}})
      control.push_back({{"id", id},
                         {"content", content},
                         {"special", true},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false}});
    const json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", control},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
    directory_.write("tokenizer.json", tokenizer.dump());
  }

  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace tp::test
