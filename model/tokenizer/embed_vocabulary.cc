#include "model/tokenizer/embed_vocabulary.h"

#include "model/files/printable.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/lost_flag.h"
#include "model/tokenizer/rwkv_vocabulary.h"
#include "model/tokenizer/steps/named_pre_tokenizer.h"
#include "tp/internal/require.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {
namespace {

using Scheme = EmbeddedVocabulary::Scheme;

// Texts that expose the differences between pre-tokenizers.
constexpr std::string_view kProbes[] = {
    "",
    "a",
    " Once upon a time, there was a little girl who didn't know it's 12:30; I'LL tell, we've seen.",
    "  two spaces   and three\ttab\n\n\n  indented\r\nlines \n",
    "1234567890 3.14159 1,000,000 2024-01-31 x86_64 v2.0b",
    "for (int i = 0; i < 10; ++i) { a[i] *= 2; } // #include <x>\n\treturn !ok && \"no\" != 'yes';",
    "https://example.org/a/b?c=d&e=f#g user@example.org (a) [b] {c} <d> ...!?--",
    "Ein Bär läuft über naïve cafés; cafe\u0301 n\u0303; ÀÉÎ \u1E9E \uFB01",
    "Привет, мир! Γειά σου Κόσμε שלום مرحبا नमस्ते",
    "漢字かな交じり文。한국어도 있습니다，中文标点！１２３",
    "🙂🙃👍🏽 \u2212\u00B2\u00BD \u200B\u00A0x ^~|`$+<=>",
    " ends with a space ",
};

TokenType type_of_added(const AddedToken& token) {
  return token.special ? TokenType::control : TokenType::user_defined;
}

bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

// A vocabulary of `rows` ids, which are unused until set_token sets them.
EmbeddedVocabulary unused_tokens(std::size_t rows) {
  EmbeddedVocabulary vocabulary;
  for (std::size_t id = 0; id < rows; ++id) vocabulary.tokens.push_back(fmt::format("[PAD{}]", id));
  vocabulary.types.assign(rows, TokenType::unused);
  return vocabulary;
}

void set_token(EmbeddedVocabulary& vocabulary, TokenId id, std::string_view text, TokenType type) {
  const auto place = static_cast<std::size_t>(id);
  if (place >= vocabulary.tokens.size()) return;
  vocabulary.tokens[place] = text;
  vocabulary.types[place] = type;
}

EmbeddedVocabulary embed_tokens(const TokenizerParts& parts, std::size_t rows) {
  EmbeddedVocabulary vocabulary = unused_tokens(rows);
  const Vocabulary& tokens = parts.vocabulary();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (const auto text = tokens.find_text(static_cast<TokenId>(id)))
      set_token(vocabulary, static_cast<TokenId>(id), *text, TokenType::normal);
  }
  for (const AddedToken& token : parts.added.all())
    set_token(vocabulary, token.id, token.content, type_of_added(token));
  return vocabulary;
}

// GGUF's flags allow only BOS and EOS around a text.
void set_special_tokens(const TokenizerParts& parts, EmbeddedVocabulary& vocabulary) {
  const PostProcessor& around = parts.post_processor;
  vocabulary.bos = parts.bos;
  vocabulary.eos = parts.eos;
  vocabulary.add_bos = !around.before.empty();
  vocabulary.add_eos = !around.after.empty();
  if (vocabulary.add_bos) vocabulary.bos = around.before.front();
  if (vocabulary.add_eos) vocabulary.eos = around.after.front();
}

void set_merges(const Bpe& model, EmbeddedVocabulary& vocabulary) {
  const auto is_there = [&](TokenId id) { return static_cast<std::size_t>(id) < vocabulary.tokens.size(); };
  const auto text = [&](TokenId id) { return vocabulary.tokens[static_cast<std::size_t>(id)]; };
  for (const Bpe::Merge& merge : model.merges()) {
    if (is_there(merge.left) && is_there(merge.right) && is_there(merge.result))
      vocabulary.merges.push_back(text(merge.left) + " " + text(merge.right));
  }
}

// A token's score decreases with the rank of the merge that makes it.
void set_scores(const Bpe& model, EmbeddedVocabulary& vocabulary) {
  vocabulary.scheme = Scheme::sentencepiece_bpe;
  const std::vector<Bpe::Merge> merges = model.merges();
  vocabulary.scores.assign(vocabulary.tokens.size(), -static_cast<float>(merges.size()));
  std::vector<bool> has_score(vocabulary.tokens.size());
  float score = 0.0F;
  for (const Bpe::Merge& merge : merges) {
    const auto id = static_cast<std::size_t>(merge.result);
    if (id >= has_score.size() || has_score[id]) continue;
    has_score[id] = true;
    vocabulary.scores[id] = score--;
  }
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == TokenType::normal && is_byte_token(vocabulary.tokens[id]))
      vocabulary.types[id] = TokenType::byte;
  }
}

std::vector<EmbeddedVocabulary> with_space_prefix_or_not(EmbeddedVocabulary vocabulary) {
  std::vector<EmbeddedVocabulary> both(2, std::move(vocabulary));
  both.back().add_space_prefix = false;
  return both;
}

// The vocabularies that may agree with a tokenizer.
std::vector<EmbeddedVocabulary> candidates(const Bpe& model, EmbeddedVocabulary vocabulary) {
  vocabulary.unknown = model.options().unknown;
  if (model.options().byte_fallback) {
    if (vocabulary.unknown)
      set_token(vocabulary, *vocabulary.unknown, *model.vocabulary().find_text(*vocabulary.unknown),
                TokenType::unknown);
    set_scores(model, vocabulary);
    return with_space_prefix_or_not(std::move(vocabulary));
  }
  set_merges(model, vocabulary);
  std::vector<EmbeddedVocabulary> all;
  for (const std::string_view name : distinct_pre_tokenizers()) {
    vocabulary.pre_tokenizer = name;
    all.push_back(vocabulary);
  }
  return all;
}

std::vector<EmbeddedVocabulary> candidates(const SentencePieceModel& model, EmbeddedVocabulary vocabulary) {
  vocabulary.scheme = Scheme::sentencepiece_bpe;
  vocabulary.scores.resize(vocabulary.tokens.size());
  for (std::size_t place = 0; place < std::min(vocabulary.tokens.size(), model.vocabulary().size());
       ++place) {
    const auto id = static_cast<TokenId>(place);
    vocabulary.scores[place] = model.score(id);
    const TokenType type = model.type(id);
    if (type != TokenType::normal && type != TokenType::user_defined) vocabulary.types[place] = type;
    if (type == TokenType::unknown) vocabulary.unknown = id;
  }
  return with_space_prefix_or_not(std::move(vocabulary));
}

std::vector<EmbeddedVocabulary> candidates(const WordPiece& model, EmbeddedVocabulary vocabulary) {
  if (!model.continues_as_it_begins() || byte_without_token(model.vocabulary())) return {};
  vocabulary.scheme = Scheme::longest_match;
  return {std::move(vocabulary)};
}

// Models that our GGUF files cannot represent.
template <class Model>
std::vector<EmbeddedVocabulary> candidates(const Model&, const EmbeddedVocabulary&) {
  return {};
}

bool agree_on(std::string_view text, const Tokenizer& one, const Tokenizer& other) {
  const std::vector<TokenId> ids = one.encode(text, AddSpecial::yes);
  return other.encode(text, AddSpecial::yes) == ids &&
         other.encode(text, AddSpecial::no) == one.encode(text, AddSpecial::no) &&
         other.decode(ids, SkipSpecial::yes) == one.decode(ids, SkipSpecial::yes);
}

enum class Agreement : std::uint8_t { none, but_first_spaces, full };

Agreement agreement(const Tokenizer& one, const Tokenizer& other) {
  Agreement agreement = Agreement::full;
  for (const std::string_view text : kProbes) {
    if (agree_on(text, one, other)) continue;
    if (!text.starts_with(' ')) return Agreement::none;
    agreement = Agreement::but_first_spaces;
  }
  return agreement;
}

// An added token after which texts get other tokens.
std::optional<std::string> disagreement_after(const std::vector<AddedToken>& added, std::size_t rows,
                                              const Tokenizer& one, const Tokenizer& other) {
  for (const AddedToken& token : added) {
    if (static_cast<std::size_t>(token.id) >= rows) continue;
    for (const char* around : {"a{}a", "a {} a", "a\n{}\n a"}) {
      if (!agree_on(fmt::format(fmt::runtime(around), token.content), one, other)) return token.content;
    }
  }
  return std::nullopt;
}

// `copy`: the added tokens as readers of the file find them.
void check_flags(const AddedTokens& original, const Normalizer& normalizer, const AddedTokens& copy,
                 const std::string& model_name) {
  const std::optional<LostFlag> lost = find_lost_flag(original, copy, normalizer);
  if (!lost) return;
  const std::string begin =
      fmt::format("cannot write the tokenizer of {} to a GGUF file: expected", model_name);
  const std::string token = printable(lost->token);
  if (lost->is_set) {
    throw_error<CheckpointError>(
        "{} added tokens without {}, because GGUF cannot store this flag, found it at '{}'; use the "
        "checkpoint without converting it",
        begin, lost->flag, token);
  }
  throw_error<CheckpointError>(
      "{} {} at the added token '{}', because readers infer this flag from the name {}, found none; give the "
      "checkpoint another name",
      begin, lost->flag, token, model_name);
}

[[noreturn]] void refuse_all(const std::string& model_name) {
  throw_error<CheckpointError>(
      "cannot write the tokenizer of {} to a GGUF file: expected byte-level BPE with a pre-tokenizer that "
      "llama.cpp knows, BPE of SentencePiece, or RWKV's vocabulary, found a tokenizer that differs from all "
      "of these; use the checkpoint without converting it",
      model_name);
}

}  // namespace

EmbeddingResult embed_vocabulary(TokenizerParts parts, std::size_t rows, const std::string& model_name) {
  EmbeddedVocabulary tokens = embed_tokens(parts, rows);
  set_special_tokens(parts, tokens);
  std::vector<EmbeddedVocabulary> all =
      std::visit([&](const auto& model) { return candidates(model, std::move(tokens)); }, parts.model);
  const AddedTokens added = parts.added;
  const Normalizer normalizer = parts.normalizer;
  const Tokenizer original(std::move(parts));
  Agreement best = Agreement::none;
  EmbeddingResult result;
  for (EmbeddedVocabulary& candidate : all) {
    infer_stripping(model_name, "", candidate);
    const Agreement found = agreement(original, Tokenizer(parts_from_vocabulary(candidate, model_name)));
    if (found == Agreement::but_first_spaces && candidate.scheme != Scheme::sentencepiece_bpe) continue;
    if (found <= best) continue;
    best = found;
    result = {std::move(candidate), found == Agreement::but_first_spaces};
    if (best == Agreement::full) break;
  }
  if (best == Agreement::none) refuse_all(model_name);
  TokenizerParts copy = parts_from_vocabulary(result.vocabulary, model_name);
  check_flags(added, normalizer, copy.added, model_name);
  result.differs_after = disagreement_after(added.all(), rows, original, Tokenizer(std::move(copy)));
  require<CheckpointError>(
      !result.differs_after || result.vocabulary.scheme == Scheme::sentencepiece_bpe,
      "cannot write the tokenizer of {} to a GGUF file: expected equal tokens of texts around added tokens, "
      "found others around '{}'; use the checkpoint without converting it",
      model_name, printable(result.differs_after.value_or("")));
  return result;
}

}  // namespace tp
