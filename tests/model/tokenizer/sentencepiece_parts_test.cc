// The tokenizers of encoder-decoders without a tokenizer.json: T5's spiece.model, Marian's pair of models
// with a vocabulary, BART's vocab.json.
#include "model/tokenizer/tokenizer.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Ids = std::vector<TokenId>;
using test::TemporaryDirectory;
using testing::shared_folder;

nlohmann::json read_expected(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

constexpr std::size_t kPieces = 1800;

class UnigramFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(shared_folder("unigram-t5style")))
      GTEST_SKIP() << "the fixtures of tokenizers are not here";
    expected_ = read_expected(shared_folder("unigram-t5style") / "expected.json");
  }
  void copy_model(const std::string& name) const {
    std::filesystem::copy(shared_folder("unigram-t5style") / "tokenizer.model", folder_.path() / name);
  }

  TemporaryDirectory folder_;
  nlohmann::json expected_;
};

TEST_F(UnigramFiles, GiveT5TheTokensOfItsTokenizerJson) {
  copy_model("spiece.model");
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  std::size_t compared = 0;
  for (const auto& c : expected_.at("cases")) {
    const auto text = c.at("text").get<std::string>();
    if (!c.contains("agree") || c.at("agree").size() < 2) continue;  // the library's and transformers'
    EXPECT_EQ(tokenizer.encode(text, AddSpecial::yes), c.at("ids_with_special").get<Ids>()) << text;
    EXPECT_EQ(tokenizer.decode(c.at("ids_with_special").get<Ids>(), SkipSpecial::yes),
              c.at("decoded_skip_special").get<std::string>());
    ++compared;
  }
  EXPECT_GT(compared, 50U);
}

TEST_F(UnigramFiles, GiveT5SentinelsAfterItsPieces) {
  copy_model("spiece.model");
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  EXPECT_EQ(tokenizer.token_to_id("<extra_id_0>"), static_cast<TokenId>(kPieces + 99));
  EXPECT_EQ(tokenizer.token_to_id("<extra_id_99>"), static_cast<TokenId>(kPieces));
  const Ids ids = tokenizer.encode("The <extra_id_0> is", AddSpecial::no);
  EXPECT_EQ(std::ranges::count(ids, static_cast<TokenId>(kPieces + 99)), 1) << "it is a token of its own";
}

TEST_F(UnigramFiles, AreRejectedForClassesOtherThanT5) {
  copy_model("spiece.model");
  folder_.write("tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer"})");
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { Tokenizer::load(folder_.path()); }),
                  "expected the class T5Tokenizer, found PegasusTokenizer; get the "
                  "model's tokenizer.json");
}

// Otherwise a number in a file decides how much memory is used.
TEST_F(UnigramFiles, AreRejectedWithTooManySentinels) {
  copy_model("spiece.model");
  for (const char* count : {"4194304", "4194303"}) {
    folder_.write("tokenizer_config.json",
                  fmt::format(R"({{"tokenizer_class": "T5Tokenizer", "extra_ids": {}}})", count));
    const std::string message = test::error_of<CheckpointError>([&] { Tokenizer::load(folder_.path()); });
    EXPECT_CONTAINS(message, "expected fewer than 4194304 tokens");
    EXPECT_CONTAINS(message, fmt::format("{} of `extra_ids`", count));
  }
}

// Marian's ids are vocab.json's: in these tests, two languages and then the pieces in descending order.
class MarianFiles : public UnigramFiles {
 protected:
  void SetUp() override {
    UnigramFiles::SetUp();
    if (IsSkipped()) return;
    copy_model("spiece.model");
    const Tokenizer pieces = Tokenizer::load(folder_.path());
    nlohmann::json vocabulary = {{">>fr<<", 0}, {">>de<<", 1}};
    for (std::size_t id = 0; id < kPieces; ++id)
      vocabulary[std::string(pieces.id_to_token(static_cast<TokenId>(id)))] =
          renumbered(static_cast<TokenId>(id));
    std::filesystem::rename(folder_.path() / "spiece.model", folder_.path() / "source.spm");
    std::filesystem::copy(folder_.path() / "source.spm", folder_.path() / "target.spm");
    folder_.write("vocab.json", vocabulary.dump());
  }
  static TokenId renumbered(TokenId id) { return static_cast<TokenId>(kPieces) + 1 - id; }
  static Ids renumbered(Ids ids) {
    for (TokenId& id : ids) id = renumbered(id);
    return ids;
  }
};

TEST_F(MarianFiles, GiveThePiecesOfTheSourceTheIdsOfTheVocabulary) {
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  std::size_t compared = 0;
  for (const auto& c : expected_.at("cases")) {
    const auto text = c.at("text").get<std::string>();
    if (!c.contains("agree") || c.at("agree").size() < 2) continue;
    const Ids ids = renumbered(c.at("ids_with_special").get<Ids>());
    EXPECT_EQ(tokenizer.encode(text, AddSpecial::yes), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids, SkipSpecial::yes), c.at("decoded_skip_special").get<std::string>());
    ++compared;
  }
  EXPECT_GT(compared, 50U);
}

TEST_F(MarianFiles, HaveATokenForTheLanguageInFrontOfTheText) {
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  Ids expected = tokenizer.encode("Hello there", AddSpecial::yes);
  expected.insert(expected.begin(), 0);
  EXPECT_EQ(tokenizer.encode(">>fr<< Hello there", AddSpecial::yes), expected);
  expected.front() = 1;
  EXPECT_EQ(tokenizer.encode(">>de<< Hello there", AddSpecial::yes), expected);
  EXPECT_EQ(tokenizer.decode(expected, SkipSpecial::yes), "Hello there");
}

TEST_F(MarianFiles, WithoutTheirEndAreRefused) {
  folder_.write("vocab.json", R"({"<unk>": 0, "a": 1})");
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { Tokenizer::load(folder_.path()); }),
                  "vocab.json: expected the token </s>, found none; download the "
                  "file again");
}

TEST(BartFiles, PutTextsBetweenTheirEnds) {
  const TemporaryDirectory folder;
  folder.write("vocab.json",
               R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "<mask>": 7})");
  folder.write("merges.txt", "#version: 0.2\na b\n");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("aba", AddSpecial::yes), (Ids{0, 6, 4, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{0, 6, 4, 2, 1}, SkipSpecial::yes), "aba");
  EXPECT_EQ(tokenizer.encode("a <mask>", AddSpecial::no), (Ids{4, 7}));
  // GPT-2's classes add no special tokens.
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("aba", AddSpecial::yes), (Ids{6, 4}));
}

}  // namespace
}  // namespace tp
