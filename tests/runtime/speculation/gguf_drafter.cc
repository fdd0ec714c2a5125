#include "tests/runtime/speculation/gguf_drafter.h"

#include "model/config/config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/read_tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp::test {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;  // in the file, in the checkpoint

const Names kLayer = {{"attn_output", "self_attn.o_proj"},
                      {"attn_v", "self_attn.v_proj"},
                      {"ffn_norm", "post_attention_layernorm"},
                      {"ffn_gate", "mlp.gate_proj"},
                      {"ffn_up", "mlp.up_proj"},
                      {"ffn_down", "mlp.down_proj"},
                      {"attn_norm", "input_layernorm"},
                      {"attn_q", "self_attn.q_proj"},
                      {"attn_k", "self_attn.k_proj"},
                      {"attn_norm_2", "hidden_norm"},
                      {"attn_q_norm", "self_attn.q_norm"},
                      {"attn_k_norm", "self_attn.k_norm"}};
const Names kOthers = {{"fc", "fc"},
                       {"output_norm", "norm"},
                       {"output", "lm_head"},
                       {"token_embd", "embed_tokens"},
                       {"enc.output_norm", "hidden_norm"}};

class DrafterFile {
 public:
  explicit DrafterFile(const reference::DrafterFixture& fixture)
      : config_(load_config(fixture.draft)), stored_(SafetensorsCheckpoint::open(fixture.draft)) {
    const bool is_eagle = config_.drafter.kind == DrafterKind::eagle3;
    architecture_ = is_eagle ? "eagle3" : "dflash";
    file_.text("general.architecture", architecture_);
    describe(fixture);
    for (const auto& [to, from] : kOthers) copy(to, from, false);
    const std::size_t layers = is_eagle ? 1 : config_.num_hidden_layers;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      for (const auto& [to, from] : kLayer) {
        const bool is_rotated = is_eagle && (to == "attn_q" || to == "attn_k");
        for (const std::string& prefix : {fmt::format("layers.{}.", layer), std::string("midlayer.")})
          copy(fmt::format("blk.{}.{}", layer, to), prefix + from, is_rotated);
      }
    }
    if (!stored_->contains("d2t")) return;
    std::vector<std::int64_t> tokens =
        stored_->whole_numbers("d2t", {1, config_.drafter.draft_vocab_size}, "");
    for (std::size_t row = 0; row < tokens.size(); ++row) tokens[row] += static_cast<std::int64_t>(row);
    file_.tensor("d2t", {tokens.size()}, "I64", bytes_of(tokens));
  }

  std::string bytes() const { return file_.file(); }

 private:
  void whole(const std::string& key, std::size_t value) {
    file_.whole(architecture_ + "." + key, static_cast<std::uint32_t>(value));
  }
  void number(const std::string& key, double value) {
    file_.value(architecture_ + "." + key, GgufKind::f32, le(static_cast<float>(value)));
  }

  void describe(const reference::DrafterFixture& fixture) {
    whole("block_count", config_.num_hidden_layers);
    whole("context_length", config_.max_position_embeddings);
    whole("embedding_length", config_.hidden_size);
    whole("feed_forward_length", config_.intermediate_size);
    whole("attention.head_count", config_.num_attention_heads);
    whole("attention.head_count_kv", config_.num_key_value_heads);
    whole("attention.key_length", config_.head_dim);
    whole("attention.value_length", config_.head_dim);
    whole("rope.dimension_count", config_.head_dim);
    number("rope.freq_base", config_.rope_theta);
    number("attention.layer_norm_rms_epsilon", config_.rms_norm_eps);
    const std::vector<std::uint32_t> places(fixture.places.begin(), fixture.places.end());
    file_.numbers(architecture_ + ".target_layers", GgufKind::u32, places);
    if (architecture_ == "eagle3") {
      whole("target_hidden_size", load_config(fixture.target).hidden_size);
      file_.value("eagle3.norm_before_residual", GgufKind::boolean,
                  le(static_cast<std::uint8_t>(config_.drafter.norm_before_residual)));
    } else {
      whole("block_size", config_.drafter.block_size);
      file_.whole("tokenizer.ggml.mask_token_id", static_cast<std::uint32_t>(config_.drafter.mask_token));
    }
    std::vector<std::string> tokens;
    for (std::size_t token = 0; token < fixture.vocab; ++token) tokens.push_back(std::to_string(token));
    file_.texts("tokenizer.ggml.tokens", tokens);
  }

  // `is_rotated`: the halves of heads are interleaved, as RoPE of eagle3 expects.
  void copy(const std::string& to, const std::string& layer, bool is_rotated) {
    const std::string name = layer + ".weight";
    if (!stored_->contains(name)) return;
    const std::vector<std::size_t> shape = stored_->find_raw(name)->tensor.shape;
    const MatrixShape matrix{shape.size() == 2 ? shape[0] : 1, shape.back()};
    std::vector<float> values = read_whole(*stored_, name, matrix);
    if (is_rotated) {
      const std::vector<float> halves = values;
      const std::size_t half = config_.head_dim / 2;
      for (std::size_t row = 0; row < matrix.rows; ++row) {
        const std::size_t head = row / (2 * half) * 2 * half;
        const std::size_t from = head + (row - head) % 2 * half + (row - head) / 2;
        std::copy_n(halves.data() + from * matrix.columns, matrix.columns,
                    values.data() + row * matrix.columns);
      }
    }
    file_.tensor(to + ".weight", {shape.begin(), shape.end()}, "F32", bytes_of(values));
  }

  CheckpointConfig config_;
  std::shared_ptr<SafetensorsCheckpoint> stored_;
  std::string architecture_;
  GgufBuilder file_;
};

}  // namespace

void write_gguf_drafter(const reference::DrafterFixture& fixture, const std::filesystem::path& file) {
  std::ofstream(file, std::ios::binary) << DrafterFile(fixture).bytes();
}

}  // namespace tp::test
