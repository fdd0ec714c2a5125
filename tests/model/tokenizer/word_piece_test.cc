// Models with whole words: WordPiece and WordLevel, from tokenizer.json and from BERT's vocab.txt.
#include "model/tokenizer/models/word_piece.h"

#include "model/tokenizer/tokenizer_files.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;
using Texts = std::vector<std::string>;

WordPiece word_piece(const Texts& tokens, std::size_t max_characters = 100) {
  std::vector<std::pair<std::string_view, TokenId>> list;
  for (const std::string& token : tokens) list.emplace_back(token, static_cast<TokenId>(list.size()));
  return WordPiece(Vocabulary(list), {.unknown = 0, .max_characters = max_characters});
}

Texts pieces_of(const WordPiece& model, const std::string& word) {
  Ids ids;
  model.encode(word, ids);
  Texts texts;
  for (const TokenId id : ids) texts.emplace_back(*model.vocabulary().find_text(id));
  return texts;
}

// The example in Google's BERT.
const Texts kBert = {"[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ","};

TEST(WordPiece, CutsWordsAfterTheLongestTokens) {
  const WordPiece model = word_piece(kBert);
  EXPECT_EQ(pieces_of(model, "unwanted"), (Texts{"un", "##want", "##ed"}));
  EXPECT_EQ(pieces_of(model, "running"), (Texts{"runn", "##ing"}));
  EXPECT_EQ(pieces_of(model, ""), Texts{});
}

TEST(WordPiece, IsUnknownWhereAWordCannotBeCutToItsEnd) {
  EXPECT_EQ(pieces_of(word_piece(kBert), "unwantedX"), (Texts{"[UNK]"}));
  const WordPiece banana = word_piece({"[UNK]", "##na", "ba"});
  EXPECT_EQ(pieces_of(banana, "banana"), (Texts{"ba", "##na", "##na"}));
  EXPECT_EQ(pieces_of(banana, "nanana"), (Texts{"[UNK]"}));
}

TEST(WordPiece, DoesNotTryAgainWithAShorterToken) {
  EXPECT_EQ(pieces_of(word_piece({"[UNK]", "ab", "a", "##bc"}), "abc"), (Texts{"[UNK]"}));
}

TEST(WordPiece, CountsCharactersOfLongWords) {
  const WordPiece model = word_piece({"[UNK]", "é", "##é"}, 3);
  EXPECT_EQ(pieces_of(model, "ééé"), (Texts{"é", "##é", "##é"}));
  EXPECT_EQ(pieces_of(model, "éééé"), (Texts{"[UNK]"}));
}

// The definition, without tries.
Texts naive_pieces(const std::set<std::string>& tokens, const std::string& word) {
  Texts pieces;
  for (std::size_t begin = 0; begin < word.size();) {
    std::size_t end = word.size();
    const auto piece = [&] { return (begin == 0 ? "" : "##") + word.substr(begin, end - begin); };
    while (end > begin && !tokens.contains(piece())) --end;
    if (end == begin) return {"[UNK]"};
    pieces.push_back(piece());
    begin = end;
  }
  return pieces;
}

TEST(WordPiece, GivesThePiecesOfItsDefinition) {
  std::mt19937 random(5);
  const Texts letters = {"a", "b", "é", "#", "中"};
  const auto word_of = [&](std::size_t length) {
    std::string word;
    for (std::size_t i = 0; i < length; ++i) word += letters[random() % letters.size()];
    return word;
  };
  for (int round = 0; round < 300; ++round) {
    Texts tokens = {"[UNK]"};
    for (int i = 0; i < 12; ++i)
      tokens.push_back((random() % 2 == 0 ? "##" : "") + word_of(1 + random() % 3));
    std::sort(tokens.begin() + 1, tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    const WordPiece model = word_piece(tokens);
    const std::set<std::string> set(tokens.begin(), tokens.end());
    for (int i = 0; i < 30; ++i) {
      const std::string word = word_of(1 + random() % 6);
      ASSERT_EQ(pieces_of(model, word), naive_pieces(set, word)) << word << json(tokens);
    }
  }
}

json bert_json() {
  json vocab = json::object();
  for (const std::string& token : kBert) vocab[token] = vocab.size();
  return {
      {"normalizer", {{"type", "BertNormalizer"}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"post_processor",
       {{"type", "BertProcessing"}, {"cls", json::array({"[CLS]", 1})}, {"sep", json::array({"[SEP]", 2})}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", vocab}}}};
}

TEST(WordPieceTokenizer, EncodesAndDecodesAsBert) {
  const Tokenizer tokenizer = testing::load_tokenizer(bert_json());
  EXPECT_EQ(tokenizer.encode("UNwant\u00E9d,running", AddSpecial::no), (Ids{7, 4, 5, 10, 8, 9}));
  EXPECT_EQ(tokenizer.encode("UNwant\u00E9d,running", AddSpecial::yes), (Ids{1, 7, 4, 5, 10, 8, 9, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{7, 4, 5, 10, 8, 9}, SkipSpecial::no), "unwanted, running");
}

TEST(WordPieceTokenizer, NeedNotNameItsType) {
  json content = bert_json();
  content["model"].erase("type");
  EXPECT_EQ(testing::load_tokenizer(content).encode("unwanted", AddSpecial::no), (Ids{7, 4, 5}));
}

TEST(WordLevelTokenizer, KnowsWholeWords) {
  const json content = {
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"model",
       {{"type", "WordLevel"}, {"unk_token", "[UNK]"}, {"vocab", {{"[UNK]", 0}, {"a", 1}, {"ab", 2}}}}}};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  EXPECT_EQ(tokenizer.encode("ab a b  ab", AddSpecial::no), (Ids{2, 1, 0, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 1, 0}, SkipSpecial::no), "ab a [UNK]");
}

TEST(DamagedWordModel, IsRefused) {
  const auto expect = [](const json& content, const std::string& part) {
    const std::string error = testing::error_of_loading(content.dump());
    EXPECT_CONTAINS(error, part);
  };
  for (const char* type : {"WordPiece", "WordLevel"}) {
    json content = bert_json();
    content["model"]["type"] = type;
    content["model"]["unk_token"] = "<unk>";
    expect(content, "model: found '<unk>' for unknown words, which is not a token, expected a token of the");
    content["model"]["vocab"]["<unk>"] = 1;
    expect(content, "model.vocab: found id 1 a second time");
    content["model"].erase("vocab");
    expect(content, "no 'vocab' in it");
  }
  json content = bert_json();
  content["model"]["max_input_chars_per_word"] = -1;
  expect(content, "model.max_input_chars_per_word");
  content = bert_json();
  content["post_processor"]["cls"] = json::array({"[CLS]", 99});
  expect(content, "post_processor.cls[1]: found 99, expected the id of a token");
  content["post_processor"]["cls"] = "[CLS]";
  expect(content, "post_processor.cls");
}

// ---- vocab.txt

const std::string kVocabularyFile =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwant\n##want\n##ed\nun\nrunn\n##ing\n,\nUN\n\u00E9\n";

Tokenizer load_vocabulary_file(const std::string& content, const json& config = nullptr) {
  const test::TemporaryDirectory folder;
  folder.write("vocab.txt", content);
  if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
  EXPECT_TRUE(holds_tokenizer(folder.path()));
  return Tokenizer::load(folder.path());
}

TEST(WordPieceFile, IsBertsTokenizer) {
  const Tokenizer tokenizer = load_vocabulary_file(kVocabularyFile);
  EXPECT_EQ(tokenizer.encode("UNwant\u00E9d, running", AddSpecial::yes), (Ids{2, 8, 6, 7, 11, 9, 10, 3}));
  EXPECT_EQ(tokenizer.encode("[MASK] x[SEP]", AddSpecial::no), (Ids{4, 1, 3}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 8, 6, 7, 11, 9, 10, 3}, SkipSpecial::yes), "unwanted, running");
  EXPECT_EQ(tokenizer.vocab_size(), 14U);
  const Tokenizer windows = load_vocabulary_file("[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n");
  EXPECT_EQ(windows.encode("a", AddSpecial::yes), (Ids{1, 3, 2}));
}

TEST(WordPieceFile, FollowsTheConfiguration) {
  const Tokenizer cased = load_vocabulary_file(kVocabularyFile, {{"do_lower_case", false}});
  EXPECT_EQ(cased.encode("UN \u00E9", AddSpecial::no), (Ids{12, 13}));
  const Tokenizer accented = load_vocabulary_file(kVocabularyFile, {{"strip_accents", false}});
  EXPECT_EQ(accented.encode("UN \u00C9", AddSpecial::no), (Ids{8, 13}));
  const Tokenizer named = load_vocabulary_file(
      "<s>\n</s>\n[UNK]\na\n",
      {{"cls_token", "<s>"}, {"sep_token", {{"content", "</s>"}}}, {"pad_token", "<s>"}});
  EXPECT_EQ(named.encode("a</s>b", AddSpecial::yes), (Ids{0, 3, 1, 2, 1}));
}

TEST(WordPieceFile, KnowsTheSecondOfEqualLines) {
  const Tokenizer tokenizer = load_vocabulary_file("[UNK]\n[CLS]\n[SEP]\na\n\nb\na\n");
  EXPECT_EQ(tokenizer.encode("b a", AddSpecial::no), (Ids{5, 6}));
  EXPECT_THROW(tokenizer.id_to_token(3), RequestError);
}

TEST(WordPieceFile, ExplainsErrors) {
  const auto error_of = [](const std::string& content) -> std::string {
    return test::error_of<CheckpointError>([&] { load_vocabulary_file(content); });
  };
  const auto expect = [&](const std::string& content, const std::string& part) {
    EXPECT_CONTAINS(error_of(content), part);
  };
  expect(
      "",
      "vocab.txt: cannot use the vocabulary: expected the token '[UNK]' in it, found none; name the special");
  expect("[UNK]\n[CLS]\n", "expected the token '[SEP]'");
  expect("[UNK]\n[CLS]\n[SEP]\n\xFF\n",
         "vocab.txt: cannot use line 4: expected a token in UTF-8, found other bytes");
  expect(std::string(std::size_t{kMaxVocabularySize} + 1, '\n'),
         "expected at most 4194304 lines, found more");
}

}  // namespace
}  // namespace tp
