// Families with experts as llama.cpp's converter writes them: the fixtures' tensors under GGUF's names.
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/computed_sequence.h"
#include "tests/model/decoder_under_test.h"
#include "tests/model/next_token_checkpoint.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::DecoderUnderTest;
using test::GgufBuilder;
using test::le;

// A tensor of a fixture, in float32.
struct Values {
  std::vector<std::uint64_t> shape;
  std::vector<float> elements;
};

class Conversion {
 public:
  Conversion(const reference::Fixture& fixture, const std::string& architecture)
      : config_(load_config(fixture.folder)),
        source_(SafetensorsCheckpoint::open(fixture.folder)),
        part_(source_->contains("model.embed_tokens.weight") ? "" : "language_model."),
        architecture_(architecture) {
    file_.text("general.architecture", architecture);
    whole("context_length", config_.max_position_embeddings);
    whole("embedding_length", config_.hidden_size);
    whole("block_count", config_.num_hidden_layers);
    whole("feed_forward_length", config_.intermediate_size);
    whole("attention.head_count", config_.num_attention_heads);
    whole("attention.head_count_kv", config_.kv_lora_rank != 0 ? 1 : config_.num_key_value_heads);
    whole("attention.key_length",
          config_.kv_lora_rank != 0 ? config_.kv_lora_rank + config_.head_dim : config_.head_dim);
    number("attention.layer_norm_rms_epsilon", config_.rms_norm_eps);
    number("rope.freq_base", config_.rope_theta);
    whole("expert_count", config_.num_experts);
    whole("expert_used_count", config_.num_experts_per_tok);
    whole("expert_feed_forward_length", config_.moe_intermediate_size);
    copy("token_embd.weight", "model.embed_tokens.weight");
    copy("output_norm.weight", "model.norm.weight");
    if (contains("lm_head.weight")) copy("output.weight", "lm_head.weight");
  }

  const ModelConfig& config() const { return config_; }
  void whole(const std::string& key, std::size_t value) {
    file_.whole(architecture_ + "." + key, static_cast<std::uint32_t>(value));
  }
  void number(const std::string& key, double value) {
    file_.value(architecture_ + "." + key, GgufKind::f32, le(static_cast<float>(value)));
  }
  void boolean(const std::string& key, bool value) {
    file_.value(architecture_ + "." + key, GgufKind::boolean, le(static_cast<std::uint8_t>(value)));
  }
  void text(const std::string& key, const std::string& value) {
    file_.text(architecture_ + "." + key, value);
  }

  bool contains(const std::string& name) const { return source_->contains(part_ + name); }
  Values read(const std::string& of_model) const {
    const std::string name = part_ + of_model;
    const auto& stored = source_->find_raw(name)->tensor.shape;
    Values values{{stored.begin(), stored.end()}, {}};
    const std::size_t columns = stored.back();
    std::size_t rows = 1;
    for (std::size_t i = 0; i + 1 < stored.size(); ++i) rows *= stored[i];
    const MatrixShape shape{rows, columns};
    values.elements.resize(shape.size());
    source_->read(name, shape, TensorSlice::whole(shape), {values.elements.data(), rows, columns});
    return values;
  }
  void write(const std::string& name, const Values& values) {
    file_.tensor(name, values.shape, "F32", test::bytes_of(values.elements));
  }
  void copy(const std::string& to, const std::string& from) { write(to, read(from)); }
  // Those that the block has, under its prefixes.
  void copy_block(std::size_t layer, const std::map<std::string, std::string>& names) {
    for (const auto& [to, from] : names) {
      const std::string name = fmt::format("model.layers.{}.{}", layer, from);
      if (contains(name)) copy(fmt::format("blk.{}.{}", layer, to), name);
    }
  }
  // One tensor of those of all experts.
  void stack(std::size_t layer, const std::string& to, const std::string& from) {
    Values all;
    for (std::size_t expert = 0; expert < config_.num_experts; ++expert) {
      const std::string name =
          fmt::format("model.layers.{}.", layer) + fmt::format(fmt::runtime(from), expert);
      if (!contains(name)) return;
      const Values one = read(name);
      all.shape = one.shape;
      all.elements.insert(all.elements.end(), one.elements.begin(), one.elements.end());
    }
    all.shape.insert(all.shape.begin(), config_.num_experts);
    write(fmt::format("blk.{}.{}", layer, to), all);
  }

  std::string file() const { return file_.file(); }

 private:
  ModelConfig config_;
  std::unique_ptr<SafetensorsCheckpoint> source_;
  std::string part_;  // what all names follow if the model is a part of a larger one
  std::string architecture_;
  GgufBuilder file_;
};

const std::map<std::string, std::string> kLlamaBlock = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"}};

// Elements of the innermost dimension, from `first` on, `apart` from each other.
Values every(const Values& values, std::size_t first, std::size_t apart) {
  Values some{values.shape, {}};
  some.shape.back() /= apart;
  for (std::size_t i = first; i < values.elements.size(); i += apart)
    some.elements.push_back(values.elements[i]);
  return some;
}

// Matrices of a stack with rows and columns exchanged.
Values transposed(const Values& values) {
  const std::size_t rows = values.shape[1];
  const std::size_t columns = values.shape[2];
  Values out{{values.shape[0], columns, rows}, std::vector<float>(values.elements.size())};
  for (std::size_t i = 0; i < out.elements.size(); ++i) {
    const std::size_t matrix = i / (rows * columns) * rows * columns;
    out.elements[i] = values.elements[matrix + i % rows * columns + (i - matrix) / rows];
  }
  return out;
}

void write_gpt_oss(Conversion& to) {
  to.whole("attention.sliding_window", to.config().sliding_window);
  to.text("rope.scaling.type", "yarn");
  to.number("rope.scaling.factor", to.config().rope_scaling.factor);
  to.whole("rope.scaling.original_context_length", to.config().rope_scaling.original_max_position_embeddings);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
                          {"attn_sinks.weight", "self_attn.sinks"},
                          {"ffn_gate_inp.weight", "mlp.router.weight"},
                          {"ffn_gate_inp.bias", "mlp.router.bias"},
                          {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"}});
    const std::string experts = fmt::format("model.layers.{}.mlp.experts.", layer);
    const std::string block = fmt::format("blk.{}.", layer);
    const Values gate_up = to.read(experts + "gate_up_proj");
    const Values gate_up_bias = to.read(experts + "gate_up_proj_bias");
    to.write(block + "ffn_gate_exps.weight", transposed(every(gate_up, 0, 2)));
    to.write(block + "ffn_up_exps.weight", transposed(every(gate_up, 1, 2)));
    to.write(block + "ffn_gate_exps.bias", every(gate_up_bias, 0, 2));
    to.write(block + "ffn_up_exps.bias", every(gate_up_bias, 1, 2));
    to.write(block + "ffn_down_exps.weight", transposed(to.read(experts + "down_proj")));
  }
}

void write_deepseek_experts(Conversion& to, const std::string& norm) {
  to.whole("expert_shared_count", to.config().n_shared_experts);
  to.whole("leading_dense_block_count", to.config().first_k_dense_replace);
  to.number("expert_weights_scale", to.config().routed_scaling_factor);
  to.boolean("expert_weights_norm", to.config().norm_topk_prob);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{norm, "post_attention_layernorm.weight"}});
    for (const char* part : {"gate", "up", "down"})
      to.stack(layer, fmt::format("ffn_{}_exps.weight", part),
               "mlp.experts.{}." + std::string(part) + "_proj.weight");
  }
}

// Its file has the layer for more tokens, too.
void write_glm4_moe(Conversion& to) {
  to.whole("rope.dimension_count", to.config().head_dim / 2);
  write_deepseek_experts(to, "post_attention_norm.weight");
}

void write_experts_one_by_one(Conversion& to, std::size_t layer, const std::string& prefix,
                              const std::vector<std::string>& parts) {
  const char* const names[] = {"gate", "up", "down"};
  for (std::size_t i = 0; i < 3; ++i)
    to.stack(layer, fmt::format("ffn_{}_exps.weight", names[i]), prefix + "{}." + parts[i] + ".weight");
}

void write_olmoe(Conversion& to) {
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"}});
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
}

void write_ernie_moe(Conversion& to) {
  to.whole("expert_shared_count", to.config().n_shared_experts);
  to.whole("leading_dense_block_count", to.config().moe_layer_start_index);
  to.whole("interleave_moe_layer_step", to.config().moe_layer_interval);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"}});
    const std::string bias = fmt::format("model.layers.{}.mlp.moe_statics.e_score_correction_bias", layer);
    if (layer >= to.config().moe_layer_start_index) {
      Values values = to.read(bias);
      values.shape = {values.elements.size()};
      to.write(fmt::format("blk.{}.exp_probs_b.bias", layer), values);
    }
    write_experts_one_by_one(to, layer, "mlp.experts.", {"gate_proj", "up_proj", "down_proj"});
  }
}

void write_phimoe(Conversion& to) {
  to.copy("output_norm.bias", "model.norm.bias");
  to.copy("output.bias", "lm_head.bias");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"attn_norm.bias", "input_layernorm.bias"},
                          {"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_norm.bias", "post_attention_layernorm.bias"},
                          {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"}});
    write_experts_one_by_one(to, layer, "block_sparse_moe.experts.", {"w1", "w3", "w2"});
  }
}

// Halves of heads interleaved, as RoPE takes them in llama.cpp.
Values permuted(Values values, std::size_t head_dim) {
  const std::size_t columns = values.shape.back();
  Values out = values;
  for (std::size_t row = 0; row < values.shape.front(); ++row) {
    const std::size_t in_head = row % head_dim;
    const std::size_t from = row - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
    std::copy_n(values.elements.data() + from * columns, columns, out.elements.data() + row * columns);
  }
  return out;
}

// The rows of matrices in a stack from `begin` on.
Values rows_of(const Values& stack, std::size_t begin, std::size_t count) {
  Values out{{stack.shape[0], count, stack.shape[2]}, {}};
  for (std::size_t matrix = 0; matrix < stack.shape[0]; ++matrix) {
    const auto first = stack.elements.begin() +
                       static_cast<std::ptrdiff_t>((matrix * stack.shape[1] + begin) * stack.shape[2]);
    out.elements.insert(out.elements.end(), first,
                        first + static_cast<std::ptrdiff_t>(count * stack.shape[2]));
  }
  return out;
}

void write_granite_moe(Conversion& to) {
  to.number("embedding_scale", to.config().embedding_multiplier);
  to.number("residual_scale", to.config().residual_multiplier);
  to.number("attention.scale", to.config().attention_multiplier);
  to.number("logit_scale", to.config().logits_scaling);
  const std::size_t size = to.config().moe_intermediate_size;
  std::map<std::string, std::string> names = kLlamaBlock;
  names.erase("attn_q.weight");
  names.erase("attn_k.weight");
  names["ffn_norm.weight"] = "post_attention_layernorm.weight";
  names["ffn_gate_inp.weight"] = "block_sparse_moe.router.layer.weight";
  names["ffn_down_exps.weight"] = "block_sparse_moe.output_linear.weight";
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, names);
    const std::string from = fmt::format("model.layers.{}.", layer);
    const std::string block = fmt::format("blk.{}.", layer);
    for (const char* projection : {"q", "k"})
      to.write(block + "attn_" + projection + ".weight",
               permuted(to.read(from + "self_attn." + projection + "_proj.weight"), to.config().head_dim));
    const Values both = to.read(from + "block_sparse_moe.input_linear.weight");
    to.write(block + "ffn_gate_exps.weight", rows_of(both, 0, size));
    to.write(block + "ffn_up_exps.weight", rows_of(both, size, size));
  }
}

void write_minimax(Conversion& to) {
  to.whole("rope.dimension_count", to.config().rotary_dim);
  to.whole("expert_gating_func", 2);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
                          {"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"}});
    write_experts_one_by_one(to, layer, "block_sparse_moe.experts.", {"w1", "w3", "w2"});
  }
}

// Metadata for RoPE and queries of Mistral 3 and 4; `share` is the part of mscale_all_dim in the file.
void write_mistral_rope(Conversion& to, double share) {
  const RopeScaling& scaling = to.config().rope_scaling;
  to.text("rope.scaling.type", "yarn");
  to.number("rope.scaling.factor", scaling.factor);
  to.whole("rope.scaling.original_context_length", scaling.original_max_position_embeddings);
  to.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  to.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  to.number("rope.scaling.yarn_log_multiplier", share);
  to.number("attention.temperature_scale", to.config().llama_4_scaling_beta);
}

void write_mistral3(Conversion& to) {
  to.whole("rope.dimension_count", to.config().head_dim);
  write_mistral_rope(to, 1.0);
  std::map<std::string, std::string> names = kLlamaBlock;
  names.erase("attn_q.weight");
  names.erase("attn_k.weight");
  names["ffn_norm.weight"] = "post_attention_layernorm.weight";
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    to.copy_block(layer, names);
    for (const char* projection : {"q", "k"})
      to.write(fmt::format("blk.{}.attn_{}.weight", layer, projection),
               permuted(to.read(fmt::format("model.layers.{}.self_attn.{}_proj.weight", layer, projection)),
                        to.config().head_dim));
  }
}

// Latent attention as newer files have it: what projects to keys and values in a stack each.
void write_latent_attention(Conversion& to, std::size_t layer) {
  const ModelConfig& config = to.config();
  to.copy_block(layer, {{"attn_q_a.weight", "self_attn.q_a_proj.weight"},
                        {"attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"},
                        {"attn_q_b.weight", "self_attn.q_b_proj.weight"},
                        {"attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"},
                        {"attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"}});
  Values both = to.read(fmt::format("model.layers.{}.self_attn.kv_b_proj.weight", layer));
  both.shape = {config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, config.kv_lora_rank};
  const std::string block = fmt::format("blk.{}.", layer);
  to.write(block + "attn_k_b.weight", transposed(rows_of(both, 0, config.qk_nope_head_dim)));
  to.write(block + "attn_v_b.weight", rows_of(both, config.qk_nope_head_dim, config.v_head_dim));
}

void write_latent_sizes(Conversion& to) {
  const ModelConfig& config = to.config();
  to.whole("rope.dimension_count", config.qk_rope_head_dim);
  to.whole("attention.value_length", config.kv_lora_rank);
  to.whole("attention.key_length_mla", config.qk_nope_head_dim + config.qk_rope_head_dim);
  to.whole("attention.value_length_mla", config.v_head_dim);
  to.whole("attention.q_lora_rank", config.q_lora_rank);
  to.whole("attention.kv_lora_rank", config.kv_lora_rank);
}

void write_glm4_moe_lite(Conversion& to) {
  write_latent_sizes(to);
  to.whole("expert_gating_func", 2);
  write_deepseek_experts(to, "ffn_norm.weight");
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer)
    write_latent_attention(to, layer);
}

// The converter leaves experts as it finds them.
void write_mistral4(Conversion& to) {
  write_latent_sizes(to);
  write_mistral_rope(to, 0.1);
  to.whole("expert_shared_count", to.config().n_shared_experts);
  to.boolean("expert_weights_norm", true);
  for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer) {
    write_latent_attention(to, layer);
    to.copy_block(layer, kLlamaBlock);
    to.copy_block(layer, {{"ffn_norm.weight", "post_attention_layernorm.weight"},
                          {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
                          {"ffn_down_exps.weight", "mlp.experts.down_proj"}});
  }
}

struct Case {
  std::string fixture;
  std::string architecture;
  std::function<void(Conversion&)> write;
};

const Case kCases[] = {
    {"gptoss", "gpt-oss", write_gpt_oss},
    {"glm4moe", "glm4moe", write_glm4_moe},
    {"olmoe", "olmoe", write_olmoe},
    {"ernie45moe", "ernie4_5-moe", write_ernie_moe},
    {"phimoe", "phimoe", write_phimoe},
    {"granitemoe", "granitemoe", write_granite_moe},
    {"minimaxm2", "minimax-m2", write_minimax},
    {"ministral3", "mistral3", write_mistral3},
    {"mistral4", "mistral4", write_mistral4},
    {"glm4moelite", "deepseek2", write_glm4_moe_lite},
    {"dots1", "dots1", [](Conversion& to) { write_deepseek_experts(to, "ffn_norm.weight"); }},
};

TEST(GgufExperts, GiveTheLogitsOfTheSameTensorsInACheckpoint) {
  Communicator& comm = test::world();
  for (const Case& of : kCases) {
    const reference::Fixture fixture = reference::fixture(of.fixture);
    SCOPED_TRACE(of.fixture);
    Conversion conversion(fixture, of.architecture);
    of.write(conversion);
    const test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.write("model.gguf", conversion.file());
    const auto source = GgufCheckpoint::open(file);
    DecoderUnderTest decoder(comm, load_config(file), *source, {.weights = WeightType::f32});
    const std::vector<float> logits = decoder.append(fixture.prompt);
    EXPECT_LE(decoder.difference(logits, fixture.rows), 1e-4);
    EXPECT_TRUE(decoder.decoder().unused_tensors().empty());
  }
}

// Whose tensors are under blk.N.nextn, where N blocks are the model's.
void expect_same_next_token_layer(const std::string& name, const std::string& architecture,
                                  void (*write)(Conversion& to)) {
  const reference::Fixture fixture = reference::fixture(name);
  for (const bool own_tables : {true, false}) {
    SCOPED_TRACE(name);
    nlohmann::json config = test::config_in(fixture.folder);
    test::Tensors tensors = test::tensors_of(fixture.folder);
    test::add_next_token_layer(config, tensors, own_tables);
    const test::TemporaryDirectory directory;
    test::write_checkpoint(directory.path(), config, tensors);
    const ModelConfig expected_config = load_config(directory.path());
    const auto expected_source = SafetensorsCheckpoint::open(directory.path());

    // The converter counts the layer among the blocks.
    const std::size_t layer = config["num_hidden_layers"];
    config["num_hidden_layers"] = layer + 1;
    const test::TemporaryDirectory counted;
    test::write_checkpoint(counted.path(), config, tensors);
    reference::Fixture of_all = fixture;
    of_all.folder = counted.path();
    Conversion conversion(of_all, architecture);
    conversion.whole("nextn_predict_layers", 1);
    write(conversion);
    conversion.copy_block(layer, {{"nextn.eh_proj.weight", "eh_proj.weight"},
                                  {"nextn.enorm.weight", "enorm.weight"},
                                  {"nextn.hnorm.weight", "hnorm.weight"},
                                  {"nextn.embed_tokens.weight", "embed_tokens.weight"},
                                  {"nextn.shared_head_head.weight", "shared_head.head.weight"},
                                  {"nextn.shared_head_norm.weight", "shared_head.norm.weight"}});
    const std::filesystem::path file = directory.write("model.gguf", conversion.file());
    const auto source = GgufCheckpoint::open(file);

    Communicator& comm = test::world();
    const auto expected_model =
        test::compute(comm, make_spec(expected_config), *expected_source, fixture.prompt, 128);
    std::vector<const float*> states;
    for (const std::vector<float>& state : expected_model.hidden) states.push_back(state.data());
    const auto logits_of = [&](const ModelConfig& of, const WeightSource& from) {
      return test::compute(comm, make_next_token_spec(of), from, fixture.prompt, 128, states).logits;
    };
    EXPECT_EQ(logits_of(load_config(file), *source), logits_of(expected_config, *expected_source));
  }
}

TEST(GgufExperts, HaveGlmsLayerForMultiTokenPrediction) {
  expect_same_next_token_layer("glm4moe", "glm4moe", write_glm4_moe);
  expect_same_next_token_layer("glm4moelite", "deepseek2", write_glm4_moe_lite);
}

}  // namespace
}  // namespace tp
