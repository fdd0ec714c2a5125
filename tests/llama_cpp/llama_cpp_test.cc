// llama.cpp reads the files that `tp-infer quantize` writes, and gives the same tokens and continuations.
//
// Logits differ in their bits. Both programs round activations for quantized weights to 8 bits, but for the K
// types in groups of 32 here and of 256 there. llama.cpp's KV cache is f16. So the test compares
// log-probabilities of the most likely tokens at each position after equal tokens, within a tolerance per
// type. If the best token leads by more than twice the tolerance, both programs must choose it.
#include "tests/launch/process.h"
#include "tests/launch/program.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/npy_array.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kTokens = 24;  // tokens of a continuation

std::string node_modules() {
  const char* const variable = std::getenv("TP_NODE_MODULES");
  return variable != nullptr ? variable : TP_NODE_MODULES;
}

// Returns llama.cpp's continuations for a file: one object per prompt, see continue.mjs.
std::vector<json> continued(const fs::path& model, const std::vector<std::string>& prompts) {
  Process node({"node", TP_CONTINUE_SCRIPT, model.string(), std::to_string(kTokens)},
               {.input = json(prompts).dump(), .variables = {"TP_NODE_MODULES=" + node_modules()}});
  const Finished finished = node.finish(120);
  EXPECT_EQ(finished.status, 0) << finished.err;
  return json_lines(finished.out);
}

class LlamaCpp : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(node_modules() + "/node-llama-cpp"))
      GTEST_SKIP() << "no node-llama-cpp in TP_NODE_MODULES (\"" << node_modules() << "\")";
    if (std::system("node --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no node";
  }

  fs::path quantized(const fs::path& model, const std::string& weights) const {
    const fs::path file = directory_.path() / (model.filename().string() + "-" + weights + ".gguf");
    const Finished finished = run(kNoMpirun, {"quantize", "--model", model.string(), "--weights", weights,
                                              "--output", file.string(), "--force"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    return file;
  }

  // Returns the log-probabilities of all tokens after each of these tokens.
  std::vector<std::vector<double>> log_probabilities(const fs::path& model, const json& ids) const {
    const fs::path tokens = directory_.write("ids.json", ids.dump());
    const fs::path file = directory_.path() / "logits.npy";
    const Finished finished = run(kNoMpirun, {"logits", "--model", model.string(), "--tokens",
                                              tokens.string(), "--output", file.string()});
    EXPECT_EQ(finished.status, 0) << finished.err;
    const NpyArray logits = read_npy(file);
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < logits.view().rows(); ++i) {
      const float* const row = logits.view().row(i);
      std::vector<double> values(row, row + logits.view().columns());
      const double max = *std::max_element(values.begin(), values.end());
      double sum = 0.0;
      for (const double value : values) sum += std::exp(value - max);
      for (double& value : values) value -= max + std::log(sum);
      rows.push_back(std::move(values));
    }
    return rows;
  }

  void expect_alike(const fs::path& model, const std::string& weights, double tolerance,
                    const std::vector<std::string>& prompts) const {
    const fs::path file = quantized(model, weights);
    const std::vector<json> results = continued(file, prompts);
    ASSERT_EQ(results.size(), prompts.size());
    double largest = 0.0;
    std::size_t separated = 0;
    std::size_t same = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Finished tokenized = run(kNoMpirun, {"tokenize", "--model", model.string(), prompts[i]});
      EXPECT_EQ(json::parse(tokenized.out), results[i].at("ids")) << prompts[i];
      json ids = results[i].at("ids");
      const std::size_t first = ids.size() - 1;
      for (const json& id : results[i].at("next")) ids.push_back(id);
      const std::vector<std::vector<double>> ours = log_probabilities(file, ids);
      for (std::size_t step = 0; step < results[i].at("next").size(); ++step) {
        const std::vector<double>& row = ours[first + step];
        for (const json& likely : results[i].at("likely").at(step)) {
          const double difference =
              std::abs(row[likely.at(0).get<std::size_t>()] - likely.at(1).get<double>());
          largest = std::max(largest, difference);
        }
        std::vector<double> sorted = row;
        std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
        const auto best = std::max_element(row.begin(), row.end()) - row.begin();
        const bool agree = best == results[i].at("next").at(step).get<std::ptrdiff_t>();
        same += agree ? 1 : 0;
        if (sorted[0] - sorted[1] <= 2 * tolerance) continue;
        ++separated;
        EXPECT_TRUE(agree) << weights << ", " << prompts[i] << ", token " << step;
      }
    }
    EXPECT_LE(largest, tolerance) << weights;
    // The test is meaningful only if enough tokens are separated.
    EXPECT_GE(3 * separated, results.size() * kTokens) << weights;
    fmt::print("{} {}: largest difference of logarithms {:.5f}, {} of {} tokens alike, {} well separated\n",
               model.filename().string(), weights, largest, same, results.size() * kTokens, separated);
  }

  TemporaryDirectory directory_;
};

const std::vector<std::string> kPrompts = {"Once upon a time", "One rainy morning, Tom", "The cat"};

// The demo model's stories are predictable, so some log-probabilities are very low, where differences are
// large: llama.cpp's cache holds float16, and its products round activations to the type of the weights.
TEST_F(LlamaCpp, GeneratesTheSameTextWithTheDemoModel) {
  for (const auto& [weights, tolerance] :
       {std::pair{"f32", 0.1}, {"f16", 0.1}, {"bf16", 1.0}, {"int8", 1.0}, {"q4_k", 0.5}, {"int4", 0.5}})
    expect_alike(TP_DEMO_MODEL, weights, tolerance, kPrompts);
}

// A family's fields and tensors in addition to Llama's.
struct WideFamily {
  json config;
  std::vector<std::string> head_norms;
  // Gemma stores gains minus 1, its LM head is the embedding, and Gemma 2 and 3 have two more norms.
  bool is_gemma = false;
  std::size_t layers = 3;
};

WideFamily wide_llama() {
  return {.config = {{"architectures", {"LlamaForCausalLM"}},
                     {"hidden_act", "silu"},
                     {"tie_word_embeddings", false}},
          .head_norms = {}};
}

// Windows end within the compared texts, and some layers have no window.
WideFamily wide_gemma2() {
  return {.config = {{"architectures", {"Gemma2ForCausalLM"}},
                     {"hidden_activation", "gelu_pytorch_tanh"},
                     {"head_dim", 64},
                     {"query_pre_attn_scalar", 64},
                     {"sliding_window", 8},
                     {"attn_logit_softcapping", 6.0},
                     {"final_logit_softcapping", 10.0}},
          .head_norms = {},
          .is_gemma = true};
}

WideFamily wide_gemma3() {
  return {.config = {{"architectures", {"Gemma3ForCausalLM"}},
                     {"hidden_activation", "gelu_pytorch_tanh"},
                     {"head_dim", 64},
                     {"query_pre_attn_scalar", 64},
                     {"sliding_window", 8},
                     {"sliding_window_pattern", 6},
                     {"rope_theta", 1000000.0},
                     {"rope_local_base_freq", 10000.0}},
          .head_norms = {"q_norm", "k_norm"},
          .is_gemma = true,
          .layers = 7};
}

// A model with random weights whose rows are blocks of 256, and with the demo model's tokenizer.
class WideModel {
 public:
  WideModel(const fs::path& folder, WideFamily family) : folder_(folder), family_(std::move(family)) {
    fs::create_directories(folder_);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path(TP_DEMO_MODEL) / name, folder_ / name);
    std::ofstream(folder_ / "config.json") << config().dump();
    std::ofstream(folder_ / "model.safetensors", std::ios::binary) << safetensors_file(tensors());
  }
  const fs::path& folder() const { return folder_; }

 private:
  static constexpr std::size_t kHidden = 256;
  static constexpr std::size_t kIntermediate = 512;
  static constexpr std::size_t kVocab = 1536;
  static constexpr std::size_t kKvSize = 128;
  static constexpr std::size_t kHeadSize = 64;

  json config() const {
    json config = {{"hidden_size", kHidden},
                   {"intermediate_size", kIntermediate},
                   {"num_hidden_layers", family_.layers},
                   {"num_attention_heads", 4},
                   {"num_key_value_heads", 2},
                   {"vocab_size", kVocab},
                   {"max_position_embeddings", 512},
                   {"rms_norm_eps", 1e-5},
                   {"rope_theta", 10000.0},
                   {"bos_token_id", 0},
                   {"eos_token_id", 1},
                   {"torch_dtype", "float32"}};
    config.update(family_.config);
    return config;
  }

  // Uniform numbers with this deviation.
  TestTensor tensor(const std::string& name, std::vector<std::size_t> shape, double deviation,
                    float mean = 0.0F) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    std::vector<float> numbers = random_.numbers(size);
    double squares = 0.0;
    for (const float number : numbers) squares += static_cast<double>(number) * number;
    const double factor = deviation / std::sqrt(squares / static_cast<double>(size));
    for (float& number : numbers) number = mean + static_cast<float>(factor * number);
    return {name + ".weight", "F32", std::move(shape), bytes_of(numbers)};
  }

  std::vector<TestTensor> tensors() {
    std::vector<TestTensor> all;
    const auto matrix = [&](const std::string& name, std::size_t rows, std::size_t columns,
                            double gain = 1.0) {
      all.push_back(tensor(name, {rows, columns}, gain / std::sqrt(static_cast<double>(columns))));
    };
    const auto norm = [&](const std::string& name, std::size_t size = kHidden) {
      all.push_back(tensor(name, {size}, 0.1, family_.is_gemma ? 0.0F : 1.0F));
    };
    // Gemma multiplies embeddings by 16, the square root of hidden_size, but not in the LM head.
    matrix("model.embed_tokens", kVocab, kHidden, family_.is_gemma ? 4.0 : 16.0);
    for (std::size_t layer = 0; layer < family_.layers; ++layer) {
      const std::string block = fmt::format("model.layers.{}.", layer);
      norm(block + "input_layernorm");
      matrix(block + "self_attn.q_proj", kHidden, kHidden);
      matrix(block + "self_attn.k_proj", kKvSize, kHidden);
      matrix(block + "self_attn.v_proj", kKvSize, kHidden);
      matrix(block + "self_attn.o_proj", kHidden, kHidden);
      for (const std::string& name : family_.head_norms) norm(block + "self_attn." + name, kHeadSize);
      norm(block + "post_attention_layernorm");
      if (family_.is_gemma) {
        norm(block + "pre_feedforward_layernorm");
        norm(block + "post_feedforward_layernorm");
      }
      matrix(block + "mlp.gate_proj", kIntermediate, kHidden);
      matrix(block + "mlp.up_proj", kIntermediate, kHidden);
      matrix(block + "mlp.down_proj", kHidden, kIntermediate);
    }
    norm("model.norm");
    if (!family_.is_gemma) matrix("lm_head", kVocab, kHidden, 4.0);  // so that tokens differ in their logits
    return all;
  }

  fs::path folder_;
  WideFamily family_;
  reference::Random random_{31};
};

// Rounding activations to 8 bits moves both programs' logarithms by 0.04 to 0.05 (root mean square), relative
// to the same weights with float activations, and llama.cpp's by 0.06 if it rounds in groups of 256. So the
// programs differ by about 0.055, or 0.075. Each tolerance is six times this difference. Larger tolerances
// would count most tokens of these random weights as ties: the best token is 0.6 to 0.9 ahead in the median.
constexpr double kGroupsOf32 = 0.35;
constexpr double kGroupsOf256 = 0.45;

TEST_F(LlamaCpp, GeneratesTheSameTextFromSuperBlocks) {
  const WideModel model(directory_.path() / "wide", wide_llama());
  expect_alike(model.folder(), "f32", 0.02, kPrompts);
  expect_alike(model.folder(), "f16", 0.03, kPrompts);
  for (const char* weights : {"int8", "int4", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4"})
    expect_alike(model.folder(), weights, kGroupsOf32, kPrompts);
  for (const char* weights : {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q4_k_m", "q5_k_m", "iq4_xs"})
    expect_alike(model.folder(), weights, kGroupsOf256, kPrompts);
}

TEST_F(LlamaCpp, GeneratesTheSameTextWithGemmaModels) {
  for (const auto& [name, family] :
       {std::pair{"gemma2", wide_gemma2()}, std::pair{"gemma3", wide_gemma3()}}) {
    const WideModel model(directory_.path() / name, family);
    expect_alike(model.folder(), "f32", 0.05, kPrompts);
    for (const char* weights : {"int8", "q4_k", "q6_k", "q4_k_m"})
      expect_alike(model.folder(), weights, 0.5, kPrompts);
  }
}

}  // namespace
}  // namespace tp::test
