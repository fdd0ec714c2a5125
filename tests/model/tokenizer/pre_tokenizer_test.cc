#include "model/tokenizer/steps/pre_tokenizer.h"

#include "tests/model/tokenizer/test_tokenizer.h"
#include "tp/error.h"

#include <cctype>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Pieces = std::vector<std::string>;

Pieces pieces_of(const json& part, std::string_view text, bool at_start = true) {
  PreTokens tokens(text, at_start);
  PreTokenizer::from_json(testing::node_of(part))(tokens);
  Pieces pieces;
  for (const Span& piece : tokens.pieces) pieces.emplace_back(tokens.view(piece));
  return pieces;
}

json split(const std::string& behavior, bool invert = false, const json& pattern = {{"String", "-"}}) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

// The examples of the `tokenizers` manual.
TEST(Split, TreatsDelimitersByItsBehavior) {
  const std::string text = "the-final--countdown";
  EXPECT_EQ(pieces_of(split("Removed"), text), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(pieces_of(split("Isolated"), text), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(pieces_of(split("MergedWithPrevious"), text), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(pieces_of(split("MergedWithNext"), text), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(pieces_of(split("Contiguous"), text), (Pieces{"the", "-", "final", "--", "countdown"}));
}

TEST(Split, TreatsDelimitersAtTheEnds) {
  EXPECT_EQ(pieces_of(split("Removed"), "-a-"), (Pieces{"a"}));
  EXPECT_EQ(pieces_of(split("MergedWithPrevious"), "-a-"), (Pieces{"-", "a-"}));
  EXPECT_EQ(pieces_of(split("MergedWithNext"), "-a-"), (Pieces{"-a", "-"}));
  EXPECT_EQ(pieces_of(split("Contiguous"), "--"), (Pieces{"--"}));
  EXPECT_EQ(pieces_of(split("Isolated"), ""), Pieces{});
}

TEST(Split, TakesTheRestForDelimitersWhenInverted) {
  EXPECT_EQ(pieces_of(split("Removed", true, {{"Regex", "\\w+"}}), "a, b!"), (Pieces{"a", "b"}));
  EXPECT_EQ(pieces_of(split("MergedWithPrevious", true, {{"Regex", "\\w+"}}), "a, b!"),
            (Pieces{"a, ", "b!"}));
}

TEST(Split, CutsAtEmptyMatches) {
  EXPECT_EQ(pieces_of(split("Isolated", false, {{"Regex", "(?<=[a-z])(?=[A-Z])"}}), "camelCaseWord"),
            (Pieces{"camel", "Case", "Word"}));
}

TEST(PreTokenizer, AppliesSequencesInOrder) {
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const json sequence = {{"type", "Sequence"}, {"pretokenizers", json::array({split("Removed"), digits})}};
  EXPECT_EQ(pieces_of(sequence, "a1-22"), (Pieces{"a", "1", "2", "2"}));
  const json nested = {{"type", "Sequence"}, {"pretokenizers", json::array({sequence, split("Removed")})}};
  EXPECT_EQ(pieces_of(nested, "a1-22"), (Pieces{"a", "1", "2", "2"}));
}

TEST(PreTokenizer, SplitsDigitsTogetherOrOneByOne) {
  EXPECT_EQ(pieces_of({{"type", "Digits"}, {"individual_digits", false}}, "ab12c٣"),
            (Pieces{"ab", "12", "c", "٣"}));
  EXPECT_EQ(pieces_of({{"type", "Digits"}, {"individual_digits", true}}, "ab12c½"),
            (Pieces{"ab", "1", "2", "c", "½"}));
}

TEST(PreTokenizer, SplitsPunctuationOfAsciiAndUnicode) {
  EXPECT_EQ(pieces_of({{"type", "Punctuation"}}, "a+b。c€"), (Pieces{"a", "+", "b", "。", "c€"}));
  EXPECT_EQ(pieces_of({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "a!?b"),
            (Pieces{"a", "!?", "b"}));
}

TEST(PreTokenizer, SplitsAtWhiteSpace) {
  EXPECT_EQ(pieces_of({{"type", "Whitespace"}}, "Hey friend!  \u00A0ok"),
            (Pieces{"Hey", "friend", "!", "ok"}));
  EXPECT_EQ(pieces_of({{"type", "Whitespace"}}, "x²y a\u200Db"), (Pieces{"x", "²", "y", "a\u200Db"}));
  EXPECT_EQ(pieces_of({{"type", "WhitespaceSplit"}}, " Hey friend!\n"), (Pieces{"Hey", "friend!"}));
}

TEST(PreTokenizer, SplitsAsBertDoes) {
  const json bert = {{"type", "BertPreTokenizer"}};
  EXPECT_EQ(pieces_of(bert, "Hey friend!     How are you?!?"),
            (Pieces{"Hey", "friend", "!", "How", "are", "you", "?", "!", "?"}));
  EXPECT_EQ(pieces_of(bert, " \u91CE  \u53E3 \u00A0Noguchi\u3002$5\n"),
            (Pieces{"\u91CE", "\u53E3", "Noguchi", "\u3002", "$", "5"}));
  std::string ascii;
  for (char c = 1; c > 0; ++c)
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) ascii += c;
  EXPECT_EQ(ascii.size(), 32U);
  EXPECT_EQ(pieces_of(bert, ascii).size(), 32U);
}

TEST(PreTokenizer, SplitsAtACharacter) {
  EXPECT_EQ(pieces_of({{"type", "CharDelimiterSplit"}, {"delimiter", "\u00B7"}}, "\u00B7a b\u00B7\u00B7c"),
            (Pieces{"a b", "c"}));
  EXPECT_EQ(pieces_of({{"type", "CharDelimiterSplit"}, {"delimiter", "."}}, "a.b"), (Pieces{"a", "b"}));
  EXPECT_THROW(pieces_of({{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}}, ""), CheckpointError);
}

TEST(PreTokenizer, SplitsIntoPiecesOfAFixedLength) {
  EXPECT_EQ(pieces_of({{"type", "FixedLength"}}, "Hello world"), (Pieces{"Hello", " worl", "d"}));
  EXPECT_EQ(pieces_of({{"type", "FixedLength"}, {"length", 3}}, "Hello \U0001F44B\nworld"),
            (Pieces{"Hel", "lo ", "\U0001F44B\nw", "orl", "d"}));
  for (const std::int64_t length : {0, -1, 65536})
    EXPECT_THROW(pieces_of({{"type", "FixedLength"}, {"length", length}}, ""), CheckpointError);
}

// The first two are the library's own examples.
TEST(PreTokenizer, SplitsAtScriptChanges) {
  const json scripts = {{"type", "UnicodeScripts"}};
  EXPECT_EQ(pieces_of(scripts, "どこで生れ。Yes"), (Pieces{"どこで生れ", "。", "Yes"}));
  EXPECT_EQ(pieces_of(scripts, "Apples are りんご 林檎"), (Pieces{"Apples are ", "りんご 林檎"}));
  EXPECT_EQ(pieces_of(scripts, "コーヒー、Кофе 2 cups"), (Pieces{"コーヒー", "、", "Кофе ", "2 ", "cups"}));
  EXPECT_EQ(pieces_of(scripts, "a\u0301b\u0378c!?"), (Pieces{"a", "\u0301", "b\u0378c", "!?"}))
      << "an accent has the script Inherited, and what is not assigned has none";
  EXPECT_EQ(pieces_of(scripts, " a"), (Pieces{"a"})) << "spaces at the start are lost there, too";
  EXPECT_EQ(pieces_of(scripts, "  "), Pieces{});
}

TEST(ByteLevelPreTokenizer, SplitsWordsAsGpt2) {
  const json part = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_EQ(pieces_of(part, "Hello, it's  10°"), (Pieces{"Hello", ",", "Ġit", "'s", "Ġ", "Ġ10", "Â°"}));
  EXPECT_EQ(pieces_of(part, "a  \n"), (Pieces{"a", "ĠĠĊ"}));
}

TEST(ByteLevelPreTokenizer, AddsASpaceInFrontIfAsked) {
  EXPECT_EQ(pieces_of({{"type", "ByteLevel"}, {"add_prefix_space", true}}, "Hi"), (Pieces{"ĠHi"}));
  EXPECT_EQ(pieces_of({{"type", "ByteLevel"}, {"add_prefix_space", true}}, " Hi"), (Pieces{"ĠHi"}));
}

TEST(ByteLevelPreTokenizer, OnlyRewritesBytesWithoutItsPattern) {
  EXPECT_EQ(pieces_of({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}, "a b"),
            (Pieces{"aĠb"}));
}

json metaspace(const json& members) {
  json part = {{"type", "Metaspace"}, {"replacement", "▁"}};
  part.update(members);
  return part;
}

TEST(MetaspacePreTokenizer, MarksSpacesAndSplitsBeforeThem) {
  EXPECT_EQ(pieces_of(metaspace({{"prepend_scheme", "always"}}), "Hey  you"), (Pieces{"▁Hey", "▁", "▁you"}));
  EXPECT_EQ(pieces_of(metaspace({{"prepend_scheme", "always"}}), " Hey"), (Pieces{"▁Hey"}));
  EXPECT_EQ(pieces_of(metaspace({{"prepend_scheme", "never"}}), "Hey you"), (Pieces{"Hey", "▁you"}));
  EXPECT_EQ(pieces_of(metaspace({{"prepend_scheme", "never"}, {"split", false}}), "Hey you"),
            (Pieces{"Hey▁you"}));
}

TEST(MetaspacePreTokenizer, MarksOnlyTheFirstPieceOfTheTextWithSchemeFirst) {
  const json first = metaspace({{"prepend_scheme", "first"}});
  EXPECT_EQ(pieces_of(first, "Hey"), (Pieces{"▁Hey"}));
  EXPECT_EQ(pieces_of(first, "Hey", false), (Pieces{"Hey"}));
  const json behind_split = {{"type", "Sequence"},
                             {"pretokenizers", json::array({split("Isolated"), first})}};
  EXPECT_EQ(pieces_of(behind_split, "a-b"), (Pieces{"▁a", "-", "b"}));
  const json behind_removal = {{"type", "Sequence"},
                               {"pretokenizers", json::array({split("Removed"), first})}};
  EXPECT_EQ(pieces_of(behind_removal, "-b"), (Pieces{"b"}));
  const json never = metaspace({{"prepend_scheme", "never"}});
  const json behind_rewriting = {{"type", "Sequence"},
                                 {"pretokenizers", json::array({split("Removed"), never, first})}};
  EXPECT_EQ(pieces_of(behind_rewriting, "-b"), (Pieces{"b"}));
  EXPECT_EQ(pieces_of(behind_rewriting, "b"), (Pieces{"▁b"}));
}

TEST(MetaspacePreTokenizer, UnderstandsTheOlderFlag) {
  EXPECT_EQ(pieces_of(metaspace({{"add_prefix_space", false}}), "a"), (Pieces{"a"}));
  EXPECT_EQ(pieces_of(metaspace({{"add_prefix_space", true}}), "a"), (Pieces{"▁a"}));
  EXPECT_EQ(pieces_of(metaspace(json::object()), "a"), (Pieces{"▁a"}));
}

TEST(PreTokenizer, SplitsAsDeepSeekDoes) {
  const auto isolated = [](const char* pattern) { return split("Isolated", false, {{"Regex", pattern}}); };
  const json part = {
      {"type", "Sequence"},
      {"pretokenizers",
       json::array(
           {isolated(R"(\p{N}{1,3})"), isolated("[一-龥぀-ゟ゠-ヿ]+"),
            isolated(
                R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
            json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}})}};
  EXPECT_EQ(pieces_of(part, "don't 12345 [x]  a"),
            (Pieces{"don", "'t", "Ġ", "123", "45", "Ġ[", "x", "]", "Ġ", "Ġa"}));
}

}  // namespace
}  // namespace tp
