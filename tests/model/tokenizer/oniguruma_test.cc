// Compares the patterns of real tokenizers, rewritten for PCRE2, with Oniguruma itself, which the
// `tokenizers` library uses.
#include "model/tokenizer/steps/byte_level_split.h"
#include "model/tokenizer/text/regex.h"
#include "model/tokenizer/text/utf8.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/oniguruma_oracle.h"
#include "tests/model/tokenizer/test_tokenizer.h"

#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using Spans = std::vector<Span>;

using testing::OnigurumaPattern;

// Oniguruma's characters of a category, except characters with a different category in PCRE2's Unicode
// tables, because the libraries' versions differ.
class Characters {
 public:
  Characters() {
    std::string all;
    for (char32_t c = 1; c <= 0x10FFFF; ++c)
      if (c < 0xD800 || c > 0xDFFF) utf8::append(all, c);
    std::set<char32_t> assigned_later;
    const auto of = [&](const Spans& spans) {
      std::vector<char32_t> characters;
      for (const Span& span : spans)
        characters.push_back(utf8::first_character(std::string_view(all).substr(span.begin)).code_point);
      return characters;
    };
    const std::vector<char32_t> ours = of(Regex::from_oniguruma("\\P{Cn}").matches(all));
    const std::vector<char32_t> theirs = of(OnigurumaPattern("\\P{Cn}").matches(all));
    std::set_symmetric_difference(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                                  std::inserter(assigned_later, assigned_later.end()));
    different_ = assigned_later.size();
    // Versions of Unicode make further marks alphabetic.
    const std::vector<char32_t> our_letters =
        of(Regex::from_oniguruma("[\\p{Alpha}&&[\\p{M}]]").matches(all));
    const std::vector<char32_t> their_letters = of(OnigurumaPattern("[\\p{Alpha}&&[\\p{M}]]").matches(all));
    std::vector<char32_t> alphabetic_later;
    std::ranges::set_symmetric_difference(our_letters, their_letters, std::back_inserter(alphabetic_later));
    std::erase_if(alphabetic_later, [&](char32_t c) { return assigned_later.contains(c); });
    EXPECT_LE(alphabetic_later.size(), 40U);
    assigned_later.insert(alphabetic_later.begin(), alphabetic_later.end());
    for (const char* name : {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me",  "Nd",       "Nl",   "No",
                             "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",  "Sc",       "Sk",   "So",
                             "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn", "Han", "Hiragana", "Emoji"}) {
      std::vector<char32_t> members = of(OnigurumaPattern(fmt::format("\\p{{{}}}", name)).matches(all));
      std::erase_if(members, [&](char32_t c) { return assigned_later.contains(c); });
      EXPECT_FALSE(members.empty()) << name;
      categories_.push_back(std::move(members));
    }
  }

  char32_t any(std::mt19937& random) const {
    const std::vector<char32_t>& category = categories_[random() % categories_.size()];
    return category[random() % category.size()];
  }

  // Returns all assigned characters, and some of the large other categories (private use, unassigned).
  std::string text() const {
    std::string text;
    for (const std::vector<char32_t>& category : categories_) {
      const std::size_t step = category.size() > 130'000 ? 97 : 1;
      for (std::size_t i = 0; i < category.size(); i += step) utf8::append(text, category[i]);
    }
    return text;
  }

  std::size_t different() const { return different_; }

 private:
  std::vector<std::vector<char32_t>> categories_;
  std::size_t different_ = 0;
};

const Characters& characters() {
  static const Characters all;
  return all;
}

// Returns runs of one kind, which the patterns look for, among characters of all categories.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {" ",       "  ",      "   ",    "\n",
                                                 "\r\n",    "\t",      "\u00A0", "\u3000",
                                                 "\u180E",  "\u0085",  "\u2028", "'s",
                                                 "'S",      "'\u017F", "'t",     "'re",
                                                 "'VE",     "'ll",     "'D",     "\u2019s",
                                                 "a",       "Word",    "HTTP",   "camelCase",
                                                 "12",      "1234567", "\u0663", "\u00BD",
                                                 "!",       "...",     "//",     "/\n",
                                                 "_",       "-",       "(x)",    "\u00E9",
                                                 "e\u0301", "\u01C5",  "\u02B0", "\u4E2D\u6587",
                                                 "\u3042",  "\u30A2",  "\u10D0", "\U0001D400",
                                                 "\uFF01",  "\u200B",  "\u200D", "\U0001F469\u200D\U0001F680",
                                                 "\u0130",  "\u0131",  "\u212A", "\u00DF",
                                                 "\uFB06",  "\u0345",  "\u24D0"};
  std::string text;
  for (std::size_t count = 1 + random() % 40; count > 0; --count) {
    if (random() % 2 == 0) {
      text += parts[random() % parts.size()];
    } else {
      for (std::size_t run = 1 + random() % 3; run > 0; --run) utf8::append(text, characters().any(random));
    }
  }
  return text;
}

std::string shown(const std::string& text) {
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const utf8::Character c = utf8::first_character(rest);
    result += fmt::format("U+{:04X} ", static_cast<std::uint32_t>(c.code_point));
    rest.remove_prefix(c.length);
  }
  return result;
}

void expect_same(const std::string& pattern, int rounds) {
  const Regex ours = Regex::from_oniguruma(pattern);
  const OnigurumaPattern theirs(pattern);
  std::mt19937 random(7);
  for (int round = 0; round < rounds; ++round) {
    const std::string text = random_text(random);
    ASSERT_EQ(ours.matches(text), theirs.matches(text)) << pattern << "\non " << shown(text);
  }
}

// Patterns from the families' published tokenizer.json files, or from the code that the files were converted
// from.
const std::vector<std::pair<const char*, std::string>>& published() {
  static const std::string contractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
  static const std::string spaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  static const std::vector<std::pair<const char*, std::string>> all = {
      {"GPT-2", std::string(kGpt2Pattern)},
      {"cl100k", contractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" + spaces},
      {"cl100k of tiktoken",
       R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
      {"o200k",
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" +
           spaces},
      {"Qwen 2", contractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" + spaces},
      {"Qwen 3.5",
       contractions + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" + spaces},
      {"GLM 4", contractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" + spaces},
      {"DeepSeek LLM lines", R"([\r\n])"},
      {"DeepSeek LLM words", R"(\s?(?:(?![ა-ჿ𝐀-𝟿])[\p{Lu}\p{Ll}\p{Lt}])+)"},
      {"DeepSeek LLM punctuation", R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)"},
      {"DeepSeek LLM ends", R"(\s+$)"},
      {"DeepSeek LLM Chinese", "[一-龥ࠀ-一가-퟿]+"},
      {"DeepSeek Coder letters", R"(\s?\p{L}+)"},
      {"DeepSeek Coder punctuation", R"(\s?\p{P}+)"},
      {"DeepSeek V3 digits", R"(\p{N}{1,3})"},
      {"DeepSeek V3 Chinese", "[一-龥぀-ゟ゠-ヿ]+"},
      {"DeepSeek V3",
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" +
           spaces},
      {"tekken",
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" +
           spaces},
      {"Cohere digits", R"(\p{N})"},
      {"Kimi K2",
       R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" +
           spaces},
      {"Bloom", R"( ?[^(\s|[.,!?…。，、।۔،])]+)"},
      {"Falcon punctuation", R"([\p{P}$+<=>^~|`]+)"},
      {"Falcon digits", "[0-9][0-9][0-9]"},
      {"digits in threes from the right", R"((?=(\d{3})+(?!\d)))"},
      {"StarCoder 2 code points", R"(\u4e2d|[\u3040-\u30ff])"},
      {"Whitespace", R"(\w+|[^\w\s]+)"},
  };
  return all;
}

TEST(Oniguruma, SplitsAsOurPatternsOfPublishedTokenizersDo) {
  for (const auto& [name, pattern] : published()) {
    SCOPED_TRACE(name);
    expect_same(pattern, 400);
  }
}

TEST(Oniguruma, HasTheSameClassesOfCharacters) {
  const std::string text = characters().text();
  for (const char* pattern : {R"(\s)",
                              R"(\S)",
                              R"(\w)",
                              R"(\W)",
                              R"(\d)",
                              R"(\D)",
                              R"(\h)",
                              R"(\H)",
                              ".",
                              R"(\p{L})",
                              R"(\p{M})",
                              R"(\p{N})",
                              R"(\p{P})",
                              R"(\p{S})",
                              R"(\p{Z})",
                              R"(\p{C})",
                              R"(\p{Han})",
                              R"(\p{Alpha})",
                              R"(\p{^L})",
                              R"([[:alpha:]])",
                              R"([[:alnum:]])",
                              R"([[:digit:]])",
                              R"([[:space:]])",
                              R"([[:upper:]])",
                              R"([[:lower:]])",
                              R"([[:word:]])",
                              R"([[:xdigit:]])",
                              R"([[:^alpha:]])",
                              R"((?i:s))",
                              R"((?i:k))",
                              R"((?i:[a-z]))",
                              R"([^\W])",
                              R"([\H])",
                              R"([\W_])",
                              R"([\p{L}&&[^\p{Lu}]])"}) {
    // EXPECT_EQ would print all matches.
    EXPECT_TRUE(Regex::from_oniguruma(pattern).matches(text) == OnigurumaPattern(pattern).matches(text))
        << pattern;
  }
  // We keep to the class without symbols, with which most published tokenizers were made.
  const char* const punct = OnigurumaPattern::has_symbols_in_punct() ? "\\p{P}" : "[[:punct:]]";
  EXPECT_TRUE(Regex::from_oniguruma("[[:punct:]]").matches(text) == OnigurumaPattern(punct).matches(text));
  EXPECT_LT(characters().different(), 10'000U) << "characters that only one library knows";
}

TEST(Oniguruma, ReadsTheSyntaxAsTheRewriterDoes) {
  for (const char* pattern : {R"(^.)",
                              R"(.$)",
                              R"(\A\s)",
                              R"(\s\z)",
                              R"(\s\Z)",
                              R"(\b\w)",
                              R"(\B.)",
                              R"((?m:.+))",
                              R"((?m:a.b)|.)",
                              R"(\p{N}{1,3}+)",
                              R"((?:ab|\d){2}+)",
                              R"([a\s]{2,}+)",
                              R"(\s{,2}x?)",
                              R"(a{2}?)",
                              R"(\w??\s)",
                              R"((?>\s+)\w)",
                              R"(\s++\S)",
                              R"((?<=\s)\w)",
                              R"((?<!\w)\d)",
                              R"([a[0-9]]+)",
                              R"([^a[0-9]]+)",
                              R"([a-z&&[^aeiou]]+)",
                              R"([^a-z&&[^aeiou]]+)",
                              R"([[a-z]&&[^x]&&\w]+)",
                              R"([\w&&[^\d_]]+)",
                              R"([a[^\s]]+)",
                              R"([\W\d]+)",
                              R"([^\W\d]+)",
                              R"([\H]+)",
                              R"(x*)",
                              R"(\R)",
                              R"(a(?i)b|S)",
                              R"(\x{4e2d}|\x41)",
                              R"(\t|\n|\r|\f|\v|\e|\a)",
                              R"([\]\[]|[]a])",
                              R"(#| )",
                              R"((?#note)a)",
                              R"(\O)",
                              R"(\N)",
                              R"((?x) a b | \d  # digits
)"}) {
    SCOPED_TRACE(pattern);
    expect_same(pattern, 200);
  }
}

// Adds the patterns of a tokenizer.json.
void add_patterns(const nlohmann::json& json, std::set<std::string>& patterns) {
  if (json.is_object() && json.contains("Regex") && json["Regex"].is_string())
    patterns.insert(json["Regex"].get<std::string>());
  if (json.is_structured())
    for (const nlohmann::json& member : json) add_patterns(member, patterns);
}

TEST(Oniguruma, SplitsAsOurPatternsOfTheFixturesDo) {
  std::set<std::string> patterns;
  for (const std::filesystem::path& folder : {testing::copied_folder(""), testing::shared_folder("")}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().filename() != "tokenizer.json") continue;
      const nlohmann::json file = testing::read_json(entry.path());
      for (const char* part : {"normalizer", "pre_tokenizer", "decoder"})
        if (file.contains(part)) add_patterns(file[part], patterns);
    }
  }
  ASSERT_FALSE(patterns.empty());
  for (const std::string& pattern : patterns) expect_same(pattern, 400);
}

}  // namespace
}  // namespace tp
