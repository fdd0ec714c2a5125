// An encoder-decoder of tests/data with a tokenizer.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/seq2seq_fixture.h"

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

namespace tp::test {

// The T5 of tests/data. Its tokenizer has a word "w12" for the id 12, from 3 on, and adds </s>, 1, after
// texts.
class TextSeq2Seq {
 public:
  TextSeq2Seq() {
    const std::filesystem::path folder = reference::seq2seq_fixture("t5-v1_0-relu-tied").folder;
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy(folder / name, directory_.path() / name);
    directory_.write("tokenizer.json", tokenizer().dump());
  }
  std::string path() const { return directory_.path().string(); }
  static std::string decoded(const std::vector<TokenId>& ids) {
    std::string text;
    for (const TokenId id : ids) text += (text.empty() ? "w" : " w") + std::to_string(id);
    return text;
  }

 private:
  static nlohmann::json tokenizer() {
    using nlohmann::json;
    json words =
        json::array({json::array({"<pad>", 0.0}), json::array({"</s>", 0.0}), json::array({"<unk>", 0.0})});
    json added = json::array();
    for (int id = 0; id < 3; ++id)
      added.push_back({{"id", id},
                       {"content", words[static_cast<std::size_t>(id)][0]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    for (int id = 3; id < 256; ++id) words.push_back({"\u2581w" + std::to_string(id), -1.0});
    const json space = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
    const json end = {{"id", "</s>"}, {"ids", {1}}, {"tokens", {"</s>"}}};
    return {{"version", "1.0"},
            {"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", space},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single",
               {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}},
              {"pair", json::array()},
              {"special_tokens", {{"</s>", end}}}}},
            {"decoder", space},
            {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", words}, {"byte_fallback", false}}}};
  }

  TemporaryDirectory directory_;
};

}  // namespace tp::test
