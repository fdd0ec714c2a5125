// A diffusion language model with a tokenizer.
#pragma once

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"
#include "tests/serve/served_program.h"

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace tp::test {

// A model with a tokenizer whose tokens are two letters each, and a chat template.
class TextDiffusion {
 public:
  explicit TextDiffusion(const std::string& fixture) {
    for (const auto& entry :
         std::filesystem::directory_iterator(reference::seeded_folder("diffusion", fixture)))
      std::filesystem::copy(entry.path(), directory_.path() / entry.path().filename());
    nlohmann::json vocabulary;
    for (int id = 0; id < 256; ++id)
      vocabulary[{static_cast<char>('a' + id / 26), static_cast<char>('a' + id % 26)}] = id;
    const nlohmann::json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", nlohmann::json::array()},
        {"normalizer", nullptr},
        {"pre_tokenizer",
         {{"type", "Split"},
          {"pattern", {{"Regex", "[a-z]{2}"}}},
          {"behavior", "Isolated"},
          {"invert", false}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "Fuse"}}},
        {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "aa"}}}};
    directory_.write("tokenizer.json", tokenizer.dump());
    directory_.write("tokenizer_config.json", nlohmann::json{{"chat_template", kTemplate}}.dump());
  }
  std::string path() const { return directory_.path().string(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace tp::test
