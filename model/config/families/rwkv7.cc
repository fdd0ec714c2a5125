// RWKV-7: a recurrence instead of attention, and MLPs with a token shift. Source: Peng et al., RWKV-7 "Goose"
// with Expressive Dynamic State Evolution, 2025; names of the checkpoints that flash-linear-attention reads.
#include "model/config/families/common.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp::families {
namespace {

constexpr const char* kSquaredRelu = "sqrelu";

ModelSpec rwkv7_spec(const CheckpointConfig& config) {
  CheckpointConfig without_activation = config;  // the MLP has its own
  without_activation.hidden_act = "relu2";
  ModelSpec spec = llama_spec(without_activation);
  set_plain_mlps(without_activation, spec);
  set_norms(spec, layer_norm_of(config));
  spec.embedding_norm = spec.final_norm;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    spec.blocks[layer].attention = rwkv7_of(config, layer);
    std::get<PlainMlpSpec>(spec.blocks[layer].feed_forward).token_shift = true;
  }
  return spec;
}

BlockNames rwkv7_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "attn_norm";
  names.rwkv7 = usual_names(kRwkv7Tensors, prefix + "attn.");
  names.rwkv7.channel_mix = prefix + "ffn.x_k";
  names.pre_feed_forward_norm = prefix + "ffn_norm";
  names.up_proj = prefix + "ffn.key";
  names.down_proj = prefix + "ffn.value";
  return names;
}

nlohmann::json rwkv7_config(const ModelMetadata& model) {
  nlohmann::json config = numbers_in_gguf(kRwkv7Numbers, model);
  config.update({{"norm_eps", model.number("attention.layer_norm_epsilon")},
                 {"hidden_act", kSquaredRelu},
                 {"num_attention_heads", 1},
                 {"num_key_value_heads", 1},
                 {"rotary_dim", nullptr}});
  return config;
}

}  // namespace

Family rwkv7() {
  Family family{.architecture = "RWKV7ForCausalLM",
                .intermediate_per_hidden = 4,
                .fixed_fields = {{"attn", "null"},
                                 {"hidden_act", fmt::format("\"{}\"", kSquaredRelu)},
                                 {"norm_bias", "true"},
                                 {"norm_first", "true"}},
                .names = llama_names(),
                .make_spec = rwkv7_spec};
  family.names.embed_tokens = "embeddings";
  family.names.embedding_norm = "layers.0.pre_norm";
  family.names.names_of_block = rwkv7_block;
  // Some checkpoints have a share of the first layer's values in the first layer, too.
  family.names.ignored_layers = {"0.attn.v_lora.lora.0", "0.attn.v_lora.lora.2"};
  family.names.gguf.block.pre_feed_forward_norm = "attn_norm_2";
  family.names.gguf.block.up_proj = "channel_mix_key";
  family.names.gguf.block.down_proj = "channel_mix_value";
  family.gguf = {.architecture = "rwkv7", .config = rwkv7_config};
  for (const char* const number : {"0", "1", "2"})
    family.gguf.copies.emplace_back(fmt::format("blk.0.time_mix_v{}.weight", number),
                                    fmt::format("blk.0.time_mix_a{}.weight", number));
  family.defaults.num_attention_heads = 1;
  family.defaults.rwkv7.head_dim = 64;
  return family;
}

}  // namespace tp::families
