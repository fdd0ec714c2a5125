// Compares the tokenizers of real model families with ids and texts from other implementations.
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"

#include <map>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

// Loads a tokenizer once, because loading takes up to half a second.
const Tokenizer& loaded(const std::filesystem::path& folder) {
  static std::map<std::filesystem::path, Tokenizer> tokenizers;
  const auto known = tokenizers.find(folder);
  return known != tokenizers.end() ? known->second
                                   : tokenizers.emplace(folder, Tokenizer::load(folder)).first->second;
}

// Transformers changes decoded texts in this way if a tokenizer's configuration asks for it. tp-infer
// doesn't, because it would change the text.
std::string cleaned_up(std::string text) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{" .", "."},
                                                                                 {" ?", "?"},
                                                                                 {" !", "!"},
                                                                                 {" ,", ","},
                                                                                 {" ' ", "'"},
                                                                                 {" n't", "n't"},
                                                                                 {" 'm", "'m"},
                                                                                 {" 's", "'s"},
                                                                                 {" 've", "'ve"},
                                                                                 {" 're", "'re"}}) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  return text;
}

class FixtureOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    folder_ = testing::copied_folder(name);
    if (!std::filesystem::exists(folder_)) folder_ = testing::shared_folder(name);
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << folder_ << " is not on this machine";
  }

  const Tokenizer& tokenizer() const { return loaded(folder_); }

  // Returns the cases of a file, or none if this tokenizer has no such file.
  json cases(const std::string& file) const {
    return std::filesystem::exists(folder_ / file) ? testing::read_json(folder_ / file).at("cases")
                                                   : json::array();
  }

  std::filesystem::path folder_;
};

TEST_P(FixtureOf, EncodesTheExpectedIds) {
  const json all = cases("expected.json");
  ASSERT_GT(all.size(), 100u);
  for (const json& c : all) {
    const std::string text = c["text"];
    EXPECT_EQ(json(tokenizer().encode(text, AddSpecial::no)), c["ids"]) << c["text"];
    EXPECT_EQ(json(tokenizer().encode(text, AddSpecial::yes)), c["ids_with_special"]) << c["text"];
  }
}

TEST_P(FixtureOf, EncodesTheIdsOfSentencePieceFromOnlyItsModel) {
  // The copied folder of a tokenizer may lack the model.
  if (!std::filesystem::exists(folder_ / "tokenizer.model")) folder_ = testing::shared_folder(GetParam());
  if (!std::filesystem::exists(folder_ / "tokenizer.model"))
    GTEST_SKIP() << "no tokenizer.model for " << GetParam();
  const json all = cases("expected_sentencepiece.json");
  ASSERT_GT(all.size(), 100u);
  const Tokenizer sentencepiece = Tokenizer::load(folder_ / "tokenizer.model");
  for (const json& c : all) {
    const std::string text = c["text"];
    EXPECT_EQ(json(sentencepiece.encode(text, AddSpecial::no)), c["ids"]) << c["text"];
  }
}

TEST_P(FixtureOf, DecodesTheExpectedTexts) {
  for (const json& c : cases("expected.json")) {
    EXPECT_EQ(tokenizer().decode(c["ids"].get<Ids>(), SkipSpecial::no), c["decoded"]);
    EXPECT_EQ(tokenizer().decode(c["ids_with_special"].get<Ids>(), SkipSpecial::yes),
              c["decoded_skip_special"]);
  }
}

TEST_P(FixtureOf, DecodesRandomIds) {
  const json all = cases("expected_decode.json");
  if (all.empty()) GTEST_SKIP() << "no random ids for " << GetParam();
  for (const json& c : all)
    EXPECT_EQ(tokenizer().decode(c["ids"].get<Ids>(), SkipSpecial::no), c["text_lossy"]);
}

TEST_P(FixtureOf, AgreesWithTheTestsOfTransformersJs) {
  const json all = cases("expected_hf_tests.json");
  if (all.empty()) GTEST_SKIP() << "no such tests for " << GetParam();
  for (const json& c : all) {
    const Ids ids = c["ids"];
    const bool has_bos = tokenizer().bos_id() && !ids.empty() && ids.front() == tokenizer().bos_id();
    EXPECT_EQ(tokenizer().encode(c["text"].get<std::string>(), has_bos ? AddSpecial::yes : AddSpecial::no),
              ids)
        << c["text"];
    const std::string text = tokenizer().decode(ids, SkipSpecial::no);
    EXPECT_TRUE(text == c["decoded"] || cleaned_up(text) == c["decoded"]) << text;
  }
}

TEST_P(FixtureOf, AgreesWithLlamaCpp) {
  const json all = cases("expected_llamacpp.json");
  if (all.empty()) GTEST_SKIP() << "no such tests for " << GetParam();
  for (const json& c : all)
    EXPECT_EQ(json(tokenizer().encode(c["text"].get<std::string>(), AddSpecial::no)), c["ids"]) << c["text"];
}

TEST_P(FixtureOf, EncodesTheSameWithWordsItRemembers) {
  const json all = cases("expected.json");
  for (int round = 0; round < 2; ++round) {
    for (const json& c : all)
      EXPECT_EQ(json(tokenizer().encode(c["text"].get<std::string>(), AddSpecial::no)), c["ids"])
          << c["text"];
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, FixtureOf,
                         ::testing::Values("gemma-style", "unigram-t5style", "stories260K", "llama2",
                                           "llama3", "gpt2", "qwen2", "mistral-v0.3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

}  // namespace
}  // namespace tp
