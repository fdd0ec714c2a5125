#include "tests/launch/text_encoder.h"

#include "tests/reference/fixture.h"

#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using nlohmann::json;

json vocabulary() {
  json words = json::array();
  const auto add = [&](const std::string& word, double score) { words.push_back({word, score}); };
  for (const char* control : {"<unk>", "[CLS]", "[SEP]", "[MASK]"}) add(control, 0.0);
  while (words.size() < 10) add("<unused" + std::to_string(words.size()) + ">", 0.0);
  for (const char* word : {"red", "green", "blue", "sky"}) add("\u2581" + std::string(word), -1.0);
  return words;
}

json token_of(const char* name, int type) { return {{"SpecialToken", {{"id", name}, {"type_id", type}}}}; }
json sequence_of(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

json tokenizer() {
  json added = json::array();
  json special = json::object();
  for (const auto& [id, name] : {std::pair(1, "[CLS]"), std::pair(2, "[SEP]"), std::pair(3, "[MASK]")}) {
    added.push_back({{"id", id},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", id == 3},  // ALBERT's mask also takes the space before it
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    special[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {token_of("[CLS]", 0), sequence_of("A", 0), token_of("[SEP]", 0)}},
            {"pair",
             {token_of("[CLS]", 0), sequence_of("A", 0), token_of("[SEP]", 0), sequence_of("B", 1),
              token_of("[SEP]", 1)}},
            {"special_tokens", special}}},
          {"decoder",
           {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}}},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary()}, {"byte_fallback", false}}}};
}

}  // namespace

TextEncoder::TextEncoder(const std::string& fixture) {
  std::filesystem::copy(reference::seeded_folder("encoders", fixture), directory_.path(),
                        std::filesystem::copy_options::recursive);
  directory_.write("tokenizer.json", tokenizer().dump());
}

}  // namespace tp::test
