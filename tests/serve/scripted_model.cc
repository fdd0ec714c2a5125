#include "tests/serve/scripted_model.h"

#include "tests/model/weights/checkpoint_files.h"

#include <fstream>

#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBytes = 256;
constexpr std::size_t kHeads = 4;

constexpr const char* kScriptedTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor "
    "%}\n"
    "{% endfor %}"
    "{# <think> and </think> #}"
    "{% if add_generation_prompt %}{{ '#' + (script or 'plain') }}{% endif %}";

// Returns the character that GPT-2's tokenizer uses for a byte.
std::string byte_token(std::size_t byte) {
  const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  std::size_t character = byte;
  if (!is_itself) {
    std::size_t before = 0;
    for (std::size_t other = 0; other < byte; ++other)
      before += (other >= '!' && other <= '~') || (other >= 0xA1 && other <= 0xAC) || other >= 0xAE ? 0 : 1;
    character = 256 + before;
  }
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
}

struct Vocabulary {
  std::vector<std::string> words{};       // tokens after the 256 bytes
  std::vector<std::size_t> successors{};  // successors of all tokens; 0: no successor
  std::size_t end = kBytes;

  std::size_t size() const { return kBytes + words.size(); }
};

Vocabulary vocabulary_of(const Scripts& scripts) {
  Vocabulary vocabulary{.words = {"<|end|>"}};
  std::vector<std::pair<std::size_t, std::size_t>> links;
  for (const auto& [name, texts] : scripts) {
    std::size_t last = vocabulary.size();
    vocabulary.words.push_back("#" + name);
    for (const std::string& text : texts) {
      links.emplace_back(last, vocabulary.size());
      last = vocabulary.size();
      vocabulary.words.push_back(text);
    }
    links.emplace_back(last, vocabulary.end);
  }
  while (vocabulary.size() % 64 != 0)
    vocabulary.words.push_back("[unused" + std::to_string(vocabulary.size()) + "]");
  vocabulary.successors.assign(vocabulary.size(), vocabulary.end);
  for (const auto& [from, to] : links) vocabulary.successors[from] = to;
  return vocabulary;
}

Json tokenizer_of(const Vocabulary& vocabulary) {
  Json bytes = Json::object();
  for (std::size_t byte = 0; byte < kBytes; ++byte) bytes[byte_token(byte)] = byte;
  Json added = Json::array();
  for (std::size_t i = 0; i < vocabulary.words.size(); ++i) {
    const std::string& word = vocabulary.words[i];
    added.push_back({{"id", kBytes + i},
                     {"content", word},
                     {"special", word == "<|end|>" || word == "<tool_call>"},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"single_word", false},
                     {"normalized", false}});
  }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", bytes}, {"merges", Json::array()}}}};
}

Json config_of(const Vocabulary& vocabulary) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_act", "silu"},
          {"hidden_size", vocabulary.size()},
          {"intermediate_size", 32},
          {"num_hidden_layers", 1},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kHeads},
          {"head_dim", 16},
          {"vocab_size", vocabulary.size()},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", false},
          {"bos_token_id", vocabulary.end},
          {"eos_token_id", vocabulary.end},
          {"torch_dtype", "float32"}};
}

// The layer adds nothing to the embedding, and the LM head maps each embedding to the token's successor.
std::vector<TestTensor> weights_of(const Vocabulary& vocabulary) {
  const std::size_t size = vocabulary.size();
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns, float value,
                       const std::function<std::size_t(std::size_t)>& row_of = {}) {
    std::vector<float> values(rows * columns, row_of ? 0.0F : value);
    for (std::size_t column = 0; row_of && column < columns; ++column)
      values[row_of(column) * columns + column] = value;
    std::vector<std::size_t> shape = {rows, columns};
    if (rows == 1) shape = {columns};
    tensors.push_back({name + ".weight", "F32", shape, bytes_of(values)});
  };
  add("model.embed_tokens", size, size, 1.0F, [](std::size_t column) { return column; });
  add("lm_head", size, size, 10.0F, [&](std::size_t column) { return vocabulary.successors[column]; });
  add("model.norm", 1, size, 1.0F);
  const std::string block = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(block + norm, 1, size, 1.0F);
  for (const char* name : {"q_proj", "k_proj", "v_proj"})
    add(block + "self_attn." + name, kHeads * 16, size, 0.0F);
  add(block + "self_attn.o_proj", size, kHeads * 16, 0.0F);
  add(block + "mlp.gate_proj", 32, size, 0.0F);
  add(block + "mlp.up_proj", 32, size, 0.0F);
  add(block + "mlp.down_proj", size, 32, 0.0F);
  return tensors;
}

}  // namespace

const Scripts& tool_scripts() {
  static const Scripts kScripts = {
      {"plain", {"Hello", " there."}},
      {"call",
       {"<think>",
        "\n",
        "I should",
        " look",
        " it up",
        ".\n",
        "</think>",
        "\n\n",
        "Let me",
        " see.",
        " \n",
        "<tool_call>",
        "\n{\"name\": \"",
        "get_",
        "weather",
        "\", \"arguments\": ",
        "{\"city\": \"",
        "Os",
        "lo\", ",
        "\"days\": 2}",
        "}\n",
        "</tool_call>"}},
      {"two",
       {"<tool_call>{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": \"Rome\"}}", "</tool_call>\n",
        "<tool_call>{\"name\": \"get_time\", ", "\"arguments\": {", "}}", "\n</tool_call>"}},
      {"broken",
       {"<tool_call>{\"name\": ", "\"get_weather\", \"arguments\": {", "\"city\"", " Oslo",
        "}}</tool_call>"}},
      // These calls are slightly wrong. Their texts differ, because each token has only one successor.
      {"bare", {"<tool_call>\n{\"name\": ", "\"get_time\"}", "\n\n</tool_call>"}},
      {"raw",
       {"<tool_call> {\"name\": \"get_weather\", ", "\"arguments\": {\"city\": \"New", "\n\tYork\"}}"}},
      {"tags", {"<function=get_weather>", "\n<parameter=city>\n10115", "\n</parameter>\n</function>"}},
      {"late",
       {"A ", "<tool_call>\n{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": 1", " 2}}</tool_call>",
        " B"}},
  };
  return kScripts;
}

void write_scripted_model(const std::filesystem::path& folder, const Scripts& scripts) {
  const Vocabulary vocabulary = vocabulary_of(scripts);
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
  };
  write("config.json", config_of(vocabulary).dump());
  write("tokenizer.json", tokenizer_of(vocabulary).dump());
  const Json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"eos_token", "<|end|>"},
                         {"chat_template", kScriptedTemplate}};
  write("tokenizer_config.json", settings.dump());
  write("model.safetensors", safetensors_file(weights_of(vocabulary)));
}

}  // namespace tp::test
