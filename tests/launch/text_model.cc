#include "tests/launch/text_model.h"

#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <fstream>

namespace tp::test {
namespace {

constexpr std::size_t kVocab = 2600;  // vocabulary of the tokenizer
constexpr std::size_t kHidden = 32;
constexpr std::size_t kIntermediate = 48;
constexpr std::size_t kLayers = 2;
constexpr std::size_t kHeads = 4;
constexpr std::size_t kKvHeads = 2;
constexpr std::size_t kHeadDim = 8;

nlohmann::json config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_act", "silu"},
          {"hidden_size", kHidden},
          {"intermediate_size", kIntermediate},
          {"num_hidden_layers", kLayers},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kKvHeads},
          {"head_dim", kHeadDim},
          {"vocab_size", kVocab},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", false},
          {"bos_token_id", 2},
          {"eos_token_id", 1},
          {"torch_dtype", "float32"}};
}

// The weights are large enough that the text does not end in a loop of one token.
TestTensor random_tensor(reference::Random& random, const std::string& name, std::vector<std::size_t> shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
  return {name, "F32", std::move(shape), bytes_of(random.numbers(size))};
}

std::vector<TestTensor> weights() {
  reference::Random random(20);
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::size_t> shape) {
    tensors.push_back(random_tensor(random, name + ".weight", std::move(shape)));
  };
  add("model.embed_tokens", {kVocab, kHidden});
  add("model.norm", {kHidden});
  add("lm_head", {kVocab, kHidden});
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    add(block + "input_layernorm", {kHidden});
    add(block + "self_attn.q_proj", {kHeads * kHeadDim, kHidden});
    add(block + "self_attn.k_proj", {kKvHeads * kHeadDim, kHidden});
    add(block + "self_attn.v_proj", {kKvHeads * kHeadDim, kHidden});
    add(block + "self_attn.o_proj", {kHidden, kHeads * kHeadDim});
    add(block + "post_attention_layernorm", {kHidden});
    add(block + "mlp.gate_proj", {kIntermediate, kHidden});
    add(block + "mlp.up_proj", {kIntermediate, kHidden});
    add(block + "mlp.down_proj", {kHidden, kIntermediate});
  }
  return tensors;
}

}  // namespace

TextModel::TextModel() {
  directory_.write("config.json", config().dump());
  directory_.write("model.safetensors", safetensors_file(weights()));
  const std::filesystem::path tokenizer = std::filesystem::path(TP_TEST_DATA) / "tokenizers/gemma-style";
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(tokenizer / file, directory_.path() / file);
}

std::filesystem::path fixture_folder(const std::string& name) {
  return reference::seeded_folder("logits", name);
}

std::filesystem::path CheckpointCopies::copy(const std::string& fixture, const std::string& name) const {
  const std::filesystem::path target = directory_.path() / name;
  std::filesystem::create_directories(target);
  for (const auto& entry : std::filesystem::directory_iterator(fixture_folder(fixture))) {
    const std::filesystem::path file = target / entry.path().filename();
    std::filesystem::copy_file(entry.path(), file);
    std::filesystem::permissions(file, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  return target;
}

void change_config(const std::filesystem::path& folder, const nlohmann::json& changes) {
  nlohmann::json config = read_json(folder / "config.json");
  config.update(changes);
  std::ofstream(folder / "config.json") << config.dump();
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace tp::test
