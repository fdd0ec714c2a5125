#include "model/tokenizer/steps/named_pre_tokenizer.h"

#include "model/files/printable.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

namespace tp {
namespace {

// The step "ByteLevel" of a tokenizer.json.
struct ByteLevel {
  bool add_prefix_space = false;
  bool use_regex = false;
};

// A pattern is a Split whose matches become separate pieces. Each step cuts the pieces of the previous step.
using Step = std::variant<std::string_view, ByteLevel>;

struct Family {
  std::vector<std::string_view> names;  // quantize writes the first name
  std::vector<Step> steps;              // empty: texts are not cut
  NamedPreTokenizer::Traits traits{};
};

constexpr ByteLevel kBytes;
constexpr ByteLevel kWords{.use_regex = true};  // also cuts by kGpt2Pattern
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kPunctuation = R"([\p{P}$+<=>^`|~]+)";

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Llama 3's pattern with white space in pieces of powers of two.
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
// Llama 3's pattern without a limit on digits, which an earlier step cuts.
constexpr std::string_view kMiniCpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 2's pattern without English contractions, because Turkish suffixes follow apostrophes.
constexpr std::string_view kUfakzeka =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
// A piece may contain several words.
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
// Cased letters according to older Unicode tables.
constexpr std::string_view kDeepSeekWord =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepSeekAsian = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kKanaOrHan = "[一-龥぀-ゟ゠-ヿ]+";
// The last part of the patterns of DeepSeek's later models.
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSpark =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
// Groups of three digits from the right, and scripts without spaces between words.
constexpr std::string_view kAfmoeDigits = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";
constexpr std::string_view kAfmoeScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// GPT-4o's pattern with single digits.
constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
// GPT-4o's pattern with runs of Han as separate words.
constexpr std::string_view kKimi =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";

// The steps follow the tokenizer.json that each family published. llama.cpp sometimes differs, because it
// supports neither normalization form C nor steps after ByteLevel. "default" is llama.cpp's own name.
const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {{"gpt-2", "phi-2", "jais", "trillion", "granite-docling", "a.x-4.0", "mellum", "exaone4", "jina-es",
        "jina-de", "jina-v2-es", "jina-v2-de", "jina-v2-code", "roberta-bpe"},
       {kWords}},
      {{"llama-bpe", "llama3", "llama-v3", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {kLlama3, kBytes},
       {.ignore_merges = true, .adds_bos = true}},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3, kBytes}},
      {{"qwen2", "deepseek-r1-qwen", "f2llmv2", "stablelm2", "hunyuan"},
       {kQwen2, kBytes},
       {.composes = true}},
      {{"grok-2", "solar-open", "kormo", "megrez"}, {kQwen2, kBytes}},
      {{"gpt-4o", "llama4", "minimax-m2", "kanana2", "gigachat", "talkie"}, {kGpt4o, kBytes}},
      {{"granite-embed-multi-97m"}, {kGpt4o, kBytes}, {.ignore_merges = true}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       {kThreeDigits, kKanaOrHan, kDeepSeek3, kBytes}},
      {{"tekken"}, {kTekken, kBytes}, {.ignore_merges = true, .adds_bos = true}},
      {{"qwen35"}, {kQwen35, kBytes}, {.composes = true}},
      {{"kimi-k2"}, {kKimi, kBytes}},
      {{"seed-coder"}, {kSeedCoder, kBytes}},
      {{"starcoder", "smollm", "refact", "codeshell", "exaone", "mellum2"}, {kDigit, kWords}},
      {{"command-r"}, {kDigit, kWords}, {.composes = true}},
      {{"mpt", "olmo", "modern-bert"}, {kWords}, {.composes = true}},
      {{"falcon"}, {kPunctuation, kWords, kDigits, "[0-9][0-9][0-9]"}},
      {{"falcon3"}, {kPunctuation, kWords, kDigit}, {.ignore_merges = true, .adds_bos = true}},
      {{"falcon-h1"}, {kPunctuation, kTekken, kBytes, "[0-9]"}, {.ignore_merges = true, .adds_bos = true}},
      {{"deepseek-llm"},
       {R"([\r\n])", kDeepSeekWord, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kDeepSeekAsian, kDigit,
        kBytes}},
      {{"deepseek-coder"}, {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekAsian, kDigit, kBytes}},
      {{"spark2_5"}, {kThreeDigits, kKanaOrHan, kSpark, kDigit, kBytes}},
      {{"bailingmoe2", "bailingmoe", "llada-moe"}, {kBailing, kBytes}, {.composes = true}},
      {{"exaone-moe"}, {kExaoneMoe, kBytes}},
      {{"youtu"}, {kYoutuScripts, kYoutu, kBytes}, {.ignore_merges = true}},
      {{"tiny_aya", "cohere2moe"}, {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o, kBytes}},
      {{"afmoe"}, {kAfmoeDigits, kAfmoeScripts, kDeepSeek3, kBytes}},
      {{"superbpe"}, {kDigits, R"((?=(\d{3})+(?!\d)))", kBytes}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom, kBytes}},
      {{"viking"}, {kBloom, kDigit, kBytes}},
      {{"minicpm5"}, {kThreeDigits, kMiniCpm5, kBytes}, {.ignore_merges = true}},
      {{"jais-2"}, {kJais2, kBytes}},
      {{"laguna"}, {R"([^\n]+|[\n]+)", kQwen2, kBytes}},
      {{"ufakzeka"}, {kUfakzeka, kBytes}},
      {{"minerva-7b"}, {ByteLevel{.add_prefix_space = true, .use_regex = true}}},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"([\t\n]|    |  )", kDigit,
        R"([\p{P}$+<=>^`|~])", kWords},
       {.adds_bos = true}},
      {{"default"}, {R"([\p{P}$+<=>^~|]+)", kGpt2Pattern, kDigits, "[0-9][0-9][0-9]", kBytes}},
      {{"gemma4", "granite-embed-multi-311m"}, {}, {.adds_bos = true, .marks_spaces = true}},
      {{"sarvam-moe"}, {}, {.marks_spaces = true}},
  };
  return all;
}

PreTokenizerPart part_of(std::string_view pattern) {
  return Split(Regex::from_oniguruma(pattern), SplitBehavior::isolated, false);
}

PreTokenizerPart part_of(const ByteLevel& step) {
  return ByteLevelSplit(step.add_prefix_space, step.use_regex);
}

}  // namespace

std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  for (const Family& family : families()) {
    if (std::ranges::find(family.names, name) == family.names.end()) continue;
    std::vector<PreTokenizerPart> parts;
    for (const Step& step : family.steps)
      parts.push_back(std::visit([](const auto& kind) { return part_of(kind); }, step));
    return NamedPreTokenizer{PreTokenizer(std::move(parts)), family.traits};
  }
  return std::nullopt;
}

std::optional<NamedPreTokenizer::Traits> pre_tokenizer_traits(std::string_view name) {
  for (const Family& family : families()) {
    if (std::ranges::find(family.names, name) != family.names.end()) return family.traits;
  }
  return std::nullopt;
}

std::string unknown_pre_tokenizer(std::string_view name) {
  const std::string_view why =
      name == "jina-v1-en" ? "the tokenizer.json of its family does not cut texts for byte-level BPE"
      : name == "whitespace"
          ? "its tokens are not bytes, and it removes white space"
          : "expected a name that llama.cpp's converter writes, such as gpt-2, llama-bpe or qwen2";
  return fmt::format("the vocabulary is for the pre-tokenizer '{}', which tp-infer does not know: {}",
                     printable(name), why);
}

std::vector<std::string_view> distinct_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) {
    if (!family.traits.marks_spaces) names.push_back(family.names.front());
  }
  return names;
}

}  // namespace tp
