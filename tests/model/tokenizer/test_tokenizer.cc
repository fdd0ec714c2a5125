#include "tests/model/tokenizer/test_tokenizer.h"

#include "model/tokenizer/steps/byte_level.h"
#include "tests/error_of.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <array>
#include <fstream>

#include <fmt/format.h>

namespace tp::testing {
namespace {

using nlohmann::json;

// Adds the results of merges as tokens.
void add_merges(json& model, const std::vector<std::string>& merges) {
  model["merges"] = merges;
  for (std::string merged : merges) {
    merged.erase(merged.find(' '), 1);
    model["vocab"].emplace(merged, model["vocab"].size());
  }
}

json special_token(int id, const std::string& content) {
  return {{"id", id},        {"content", content},   {"special", true},    {"lstrip", false},
          {"rstrip", false}, {"single_word", false}, {"normalized", false}};
}

}  // namespace

Tokenizer load_tokenizer(const json& content, const json& config) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", content.dump());
  if (!config.is_null()) folder.write("tokenizer_config.json", config.dump());
  return Tokenizer::load(folder.path());
}

json unigram_json(const std::vector<std::string>& tokens) {
  json vocab = json::array({json::array({"<unk>", 0.0})});
  for (const std::string& token : tokens)
    vocab.push_back(json::array({token, -static_cast<double>(vocab.size())}));
  const json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}};
  return {{"pre_tokenizer", metaspace},
          {"decoder", metaspace},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}};
}

json bpe_json(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  json model = {{"type", "BPE"}, {"vocab", json::object()}, {"merges", merges}};
  for (std::size_t id = 0; id < tokens.size(); ++id) model["vocab"][tokens[id]] = id;
  return model;
}

json byte_level_json(const std::vector<std::string>& merges) {
  std::vector<std::string> bytes(256);
  for (int byte = 0; byte < 256; ++byte)
    byte_level::append_encoded(bytes[static_cast<std::size_t>(byte)],
                               std::string(1, static_cast<char>(byte)));
  json model = bpe_json(bytes);
  add_merges(model, merges);
  const int end = static_cast<int>(model["vocab"].size());
  return {{"added_tokens", json::array({special_token(end, "<|end|>")})},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", model}};
}

json byte_fallback_json(const std::vector<std::string>& characters, const std::vector<std::string>& merges) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  tokens.insert(tokens.end(), {"<unk>", "<s>", "</s>"});
  tokens.insert(tokens.end(), characters.begin(), characters.end());
  json model = bpe_json(tokens);
  model.update({{"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}});
  add_merges(model, merges);
  const json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  const json mark_spaces = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const json unmark_spaces = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const json byte_fallback = {{"type", "ByteFallback"}};
  const json fuse = {{"type", "Fuse"}};
  const json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"added_tokens",
           json::array({special_token(256, "<unk>"), special_token(257, "<s>"), special_token(258, "</s>")})},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", json::array({prepend, mark_spaces})}}},
          {"decoder",
           {{"type", "Sequence"}, {"decoders", json::array({unmark_spaces, byte_fallback, fuse, strip})}}},
          {"model", model}};
}

JsonNode node_of(const json& value) { return JsonNode(value, "test.json"); }

std::string error_of_loading(const std::string& content) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", content);
  return test::error_of<CheckpointError>([&] { Tokenizer::load(folder.path()); });
}

json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}

std::string random_text(std::mt19937& random, std::size_t pieces) {
  static const std::array<std::string, 24> choices = {
      "a",  "b",         "the",  "ing", " ",    "  ",       "\n",           "\r\n",
      "é",  "e\xCC\x81", "ß",    "▁",   "中",   "文字",     "🦙",         "👩‍🚀",
      "42", "<0x41>",    "</s>", "'s",  "\xFF", "\xE2\x96", "\xED\xA0\x80", "\t"};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += choices[random() % choices.size()];
  return text;
}

}  // namespace tp::testing
