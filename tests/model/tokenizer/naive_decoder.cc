#include "tests/model/tokenizer/naive_decoder.h"

#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/text/utf8.h"

#include <cstdlib>
#include <stdexcept>

namespace tp::testing {
namespace {

using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

std::string stripped(std::string text, const nlohmann::json& step) {
  const std::string character = step["content"];
  for (int i = 0; i < step["start"].get<int>() && text.starts_with(character); ++i)
    text.erase(0, character.size());
  for (int i = 0; i < step["stop"].get<int>() && text.ends_with(character); ++i)
    text.resize(text.size() - character.size());
  return text;
}

bool is_byte_token(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
         token.find_first_not_of("0123456789abcdefABCDEF", 3) == 5;
}

Tokens without_byte_tokens(const Tokens& tokens) {
  Tokens out;
  for (std::size_t i = 0; i < tokens.size();) {
    std::string bytes;
    for (; i < tokens.size() && is_byte_token(tokens[i]); ++i)
      bytes.push_back(static_cast<char>(std::strtol(tokens[i].c_str() + 3, nullptr, 16)));
    if (!bytes.empty() && utf8::is_valid(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    for (; i < tokens.size() && !is_byte_token(tokens[i]); ++i) out.push_back(tokens[i]);
  }
  return out;
}

Tokens from_byte_level(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) byte_level::append_decoded(bytes, token);
  std::string text;
  utf8::append_repaired(text, bytes);
  return {text};
}

std::string cleaned(std::string text) {
  const std::vector<std::pair<std::string, std::string>> replacements = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : replacements) text = replaced(text, what, by);
  return text;
}

Tokens word_pieces(const nlohmann::json& step, Tokens tokens) {
  const std::string prefix = step["prefix"];
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i != 0) tokens[i] = tokens[i].starts_with(prefix) ? tokens[i].substr(prefix.size()) : " " + tokens[i];
    if (step["cleanup"]) tokens[i] = cleaned(tokens[i]);
  }
  return tokens;
}

Tokens transcribed(const nlohmann::json& step, const Tokens& tokens) {
  Tokens out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i != 0 && tokens[i] == tokens[i - 1]) continue;
    std::string text = replaced(tokens[i], step["pad_token"], "");
    if (step["cleanup"]) text = replaced(cleaned(text), step["word_delimiter_token"], " ");
    if (!text.empty()) out.push_back(text);
  }
  return out;
}

Tokens run(const nlohmann::json& step, Tokens tokens) {
  const std::string type = step["type"];
  if (type == "Sequence") {
    for (const nlohmann::json& part : step["decoders"]) tokens = run(part, tokens);
  } else if (type == "Fuse") {
    tokens = {joined(tokens)};
  } else if (type == "ByteFallback") {
    tokens = without_byte_tokens(tokens);
  } else if (type == "ByteLevel") {
    tokens = from_byte_level(tokens);
  } else if (type == "Replace") {
    for (std::string& token : tokens) token = replaced(token, step["pattern"]["String"], step["content"]);
  } else if (type == "Strip") {
    for (std::string& token : tokens) token = stripped(token, step);
  } else if (type == "Metaspace") {
    const bool drops = step.value("prepend_scheme", "always") != "never";
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], step["replacement"], i == 0 && drops ? "" : " ");
  } else if (type == "WordPiece") {
    tokens = word_pieces(step, tokens);
  } else if (type == "BPEDecoder") {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], step["suffix"], i + 1 == tokens.size() ? "" : " ");
  } else if (type == "CTC") {
    tokens = transcribed(step, tokens);
  } else {
    throw std::logic_error("no naive decoder " + type);
  }
  return tokens;
}

}  // namespace

std::string naive_decode(const nlohmann::json& decoder, const Tokens& tokens) {
  return joined(run(decoder, tokens));
}

}  // namespace tp::testing
