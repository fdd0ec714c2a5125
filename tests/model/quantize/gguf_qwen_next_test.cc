// Qwen3-Next's GGUF files, whose tensors llama.cpp divides otherwise than the checkpoints do.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/model_tensors.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/decoder_under_test.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::DecoderUnderTest;
using test::GgufBuilder;
using test::le;
using test::TemporaryDirectory;

// What llama.cpp's converter makes of Qwen3-Next's tensors.
class QwenNextFile {
 public:
  static constexpr std::uint32_t kKeyHeads = 2, kValueHeads = 4, kKeyDim = 12, kValueDim = 12, kExperts = 6;

  QwenNextFile() {
    file_.text("general.architecture", "qwen3next");
    for (const auto& [key, number] : {std::pair{"context_length", 512U},
                                      {"embedding_length", 48U},
                                      {"block_count", 4U},
                                      {"feed_forward_length", 64U},
                                      {"rope.dimension_count", 4U},
                                      {"attention.head_count", 4U},
                                      {"attention.head_count_kv", 2U},
                                      {"attention.key_length", 16U},
                                      {"attention.value_length", 16U},
                                      {"expert_count", kExperts},
                                      {"expert_used_count", 2U},
                                      {"expert_feed_forward_length", 24U},
                                      {"expert_shared_feed_forward_length", 24U},
                                      {"ssm.conv_kernel", 4U},
                                      {"ssm.state_size", kKeyDim},
                                      {"ssm.group_count", kKeyHeads},
                                      {"ssm.time_step_rank", kValueHeads},
                                      {"ssm.inner_size", kValueHeads * kValueDim},
                                      {"full_attention_interval", 4U}})
      file_.whole(fmt::format("qwen3next.{}", key), number);
    file_.value("qwen3next.attention.layer_norm_rms_epsilon", GgufKind::f32, le(1e-6F));
    file_.value("qwen3next.rope.freq_base", GgufKind::f32, le(1e7F));
  }

  void add(const std::string& name, MatrixShape shape, std::vector<float> values) {
    if (name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight")) {
      for (float& value : values) value += 1.0F;
    }
    if (name.ends_with("A_log")) {
      for (float& value : values) value = -std::exp(value);
    }
    if (name.ends_with("in_proj_qkvz.weight")) return split(name, shape.columns, values);
    if (const std::size_t expert = name.find(".mlp.experts."); expert != name.npos) {
      // The experts follow each other, in the order of their numbers.
      const std::string stack = name.substr(0, expert) + name.substr(name.rfind('.', name.size() - 8));
      auto& [one, all] = stacks_[stack];
      one = shape;
      all.insert(all.end(), values.begin(), values.end());
      return;
    }
    store(renamed(name), shape, values);
  }

  std::string bytes() {
    for (const auto& [name, stack] : stacks_) {
      const auto& [shape, values] = stack;
      file_.tensor(renamed(name), {kExperts, shape.rows, shape.columns}, "F32", test::bytes_of(values));
    }
    return file_.file();
  }

 private:
  static std::string renamed(std::string name) {
    static const std::vector<std::pair<std::string, std::string>> names = {
        {"model.embed_tokens", "token_embd"},
        {"model.norm", "output_norm"},
        {"lm_head", "output"},
        {"model.layers.", "blk."},
        {"input_layernorm", "attn_norm"},
        {"post_attention_layernorm", "post_attention_norm"},
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"linear_attn.in_proj_qkv.", "attn_qkv."},
        {"linear_attn.in_proj_z", "attn_gate"},
        {"linear_attn.in_proj_ba", "ssm_ba"},
        {"linear_attn.conv1d", "ssm_conv1d"},
        {"linear_attn.A_log", "ssm_a"},
        {"linear_attn.dt_bias", "ssm_dt.bias"},
        {"linear_attn.norm", "ssm_norm"},
        {"linear_attn.out_proj", "ssm_out"},
        {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
        {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
        {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
        {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
        {"mlp.gate.", "ffn_gate_inp."},
        {".gate_proj", ".ffn_gate_exps"},
        {".up_proj", ".ffn_up_exps"},
        {".down_proj", ".ffn_down_exps"}};
    for (const auto& [from, to] : names) {
      if (const std::size_t place = name.find(from); place != name.npos) name.replace(place, from.size(), to);
    }
    return name;
  }

  void store(const std::string& name, MatrixShape shape, const std::vector<float>& values) {
    std::vector<std::uint64_t> extents = {shape.columns};
    if (shape.rows > 1) extents.insert(extents.begin(), shape.rows);
    file_.tensor(name, extents, "F32", test::bytes_of(values));
  }

  // All queries, all keys and all values in one tensor, the gates in another.
  void split(const std::string& name, std::size_t columns, const std::vector<float>& values) {
    constexpr std::size_t kValues = kValueHeads / kKeyHeads * kValueDim;  // of a key head
    constexpr std::size_t kParts[] = {kKeyDim, kKeyDim, kValues, kValues};
    std::vector<float> parts[4];
    auto from = values.begin();
    for (std::size_t head = 0; head < kKeyHeads; ++head) {
      for (std::size_t part = 0; part < 4; ++part) {
        const auto end = from + static_cast<std::ptrdiff_t>(kParts[part] * columns);
        parts[part].insert(parts[part].end(), from, end);
        from = end;
      }
    }
    std::vector<float> qkv = parts[0];
    qkv.insert(qkv.end(), parts[1].begin(), parts[1].end());
    qkv.insert(qkv.end(), parts[2].begin(), parts[2].end());
    const std::string prefix = renamed(name.substr(0, name.find("linear_attn.")));
    store(prefix + "attn_qkv.weight", {qkv.size() / columns, columns}, qkv);
    store(prefix + "attn_gate.weight", {parts[3].size() / columns, columns}, parts[3]);
  }

  GgufBuilder file_;
  std::map<std::string, std::pair<MatrixShape, std::vector<float>>> stacks_;
};

TEST(GgufQwenNext, HasItsProjectionsInTwoTensorsAsLlamaCppWritesThem) {
  if (test::world().size() > 4) GTEST_SKIP() << "four heads";
  const Fixture fixture = reference::fixture("qwen3next");
  const ModelConfig config = load_config(fixture.folder);
  const auto checkpoint = SafetensorsCheckpoint::open(fixture.folder);
  QwenNextFile file;
  for (const ModelTensor& tensor : model_tensors(make_spec(config), *checkpoint)) {
    std::vector<float> values(tensor.shape.size());
    checkpoint->read(tensor.name, tensor.shape, TensorSlice::whole(tensor.shape),
                     {values.data(), tensor.shape.rows, tensor.shape.columns});
    file.add(tensor.name, tensor.shape, std::move(values));
  }
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", file.bytes());
  const auto source = GgufCheckpoint::open(path);
  DecoderUnderTest decoder(test::world(), load_config(path), *source, {.weights = WeightType::f32});
  EXPECT_LE(decoder.difference(decoder.append(fixture.prompt), fixture.rows), 4 * fixture.noise);
  EXPECT_TRUE(decoder.decoder().unused_tensors().empty());
}

}  // namespace
}  // namespace tp
