#include "model/tokenizer/tiktoken_file.h"

#include "model/files/parse_number.h"
#include "model/tokenizer/models/scored_merges.h"
#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/steps/named_pre_tokenizer.h"
#include "model/tokenizer/text/base64.h"
#include "model/tokenizer/vocabulary_lines.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kControlTokens = 258;
constexpr std::size_t kMaxTokenBytes = 1024;  // the longest known token has 128

struct RankedToken {
  std::string bytes;
  std::size_t rank = 0;
};

// Reads a line: "IHRoZQ== 290".
RankedToken token_of(std::string_view line, std::size_t number, const std::string& file) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::optional<std::string> bytes = decoded_base64(line.substr(0, space));
  const auto rank = parse_number<std::size_t>(line.substr(std::min(space + 1, line.size())));
  RankedToken token{.bytes = bytes.value_or(""), .rank = rank.value_or(0)};
  require<CheckpointError>(
      !token.bytes.empty() && token.bytes.size() <= kMaxTokenBytes && rank,
      "{}: line {} must be 1 to {} bytes of a token in base64, a space and its rank, found {} characters "
      "that are not; the file may be damaged, get it again",
      file, number, kMaxTokenBytes, line.size());
  return token;
}

// The tokens in the byte-level alphabet, indexed by rank. Missing ranks are empty.
std::vector<std::string> read_tokens(const std::filesystem::path& file) {
  std::vector<std::string> tokens;
  for_each_vocabulary_line(file, [&](const std::string& line, std::size_t number) {
    const RankedToken token = token_of(line, number, file.string());
    require<CheckpointError>(token.rank + kControlTokens < static_cast<std::size_t>(kMaxVocabularySize),
                             "{}: line {} has the rank {}, expected less than {}; the file may be damaged, "
                             "get it again",
                             file.string(), number, token.rank, kMaxVocabularySize - kControlTokens);
    if (token.rank >= tokens.size()) tokens.resize(token.rank + 1);
    require<CheckpointError>(tokens[token.rank].empty(),
                             "{}: line {} has the rank {} a second time, expected a different one; the file "
                             "may be damaged, get it again",
                             file.string(), number, token.rank);
    byte_level::append_encoded(tokens[token.rank], token.bytes);
  });
  return tokens;
}

// Throws CheckpointError if ranks are missing, tokens are equal, or a byte has no token: some texts could not
// be encoded then.
void require_complete(const std::vector<std::string>& tokens, const std::string& file) {
  const auto missing = std::ranges::find_if(tokens, &std::string::empty);
  require<CheckpointError>(missing == tokens.end(),
                           "{}: no token has the rank {}, expected one for every rank below {}; the file may "
                           "be damaged, get it again",
                           file, missing - tokens.begin(), tokens.size());
  std::vector<std::string> bytes(256);
  for (std::size_t byte = 0; byte < bytes.size(); ++byte)
    byte_level::append_encoded(bytes[byte], std::string(1, static_cast<char>(byte)));
  std::vector<std::string> sorted = tokens;
  std::ranges::sort(sorted);
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    require<CheckpointError>(std::ranges::binary_search(sorted, bytes[byte]),
                             "{}: expected a token for every byte, found none for {}; the file may be "
                             "damaged, get it again",
                             file, byte);
  }
  const auto twice = std::ranges::adjacent_find(sorted);
  require<CheckpointError>(twice == sorted.end(),
                           "{}: expected different tokens, found two with the same bytes (\"{}\"); the file "
                           "may be damaged, get it again",
                           file, twice == sorted.end() ? "" : *twice);
}

AddedTokens reserved_tokens(std::size_t first) {
  std::vector<AddedToken> added;
  for (std::size_t id = first; id < first + kControlTokens; ++id) {
    added.push_back({.id = static_cast<TokenId>(id),
                     .content = fmt::format("<|reserved_token_{}|>", id),
                     .special = true,
                     .reserved = true});
  }
  return AddedTokens(std::move(added));
}

}  // namespace

TokenizerParts parts_from_tiktoken(const std::filesystem::path& file) {
  const std::vector<std::string> ranked = read_tokens(file);
  require_complete(ranked, file.string());
  TokenizerParts parts{.model = bpe_of_ranks(ranked, 0)};
  parts.pre_tokenizer = named_pre_tokenizer("kimi-k2")->pre_tokenizer;
  parts.added = reserved_tokens(ranked.size());
  parts.decoder = TokenDecoder::byte_level();
  return parts;
}

}  // namespace tp
