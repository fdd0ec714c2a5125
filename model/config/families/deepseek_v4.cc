// DeepSeek-V4: compressed attention, hyper-connections that mix streams, and experts that the first layers
// choose by the token. DeepSeek-V4.1: layers share pools and choices, connections lag, and no layer chooses
// by the token.
#include "model/config/config.h"
#include "model/config/families/common.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <variant>

namespace tp::families {
namespace {

constexpr std::size_t kOverlappingRatio = 4;  // layers with other pools have no indexer

CompressedAttentionSpec compressed_attention(const CheckpointConfig& config, std::size_t layer) {
  const CompressedAttentionConfig& compressed = config.compressed;
  CompressedAttentionSpec spec{.num_attention_heads = config.num_attention_heads,
                               .q_lora_rank = compressed.q_lora_rank,
                               .head_dim = compressed.head_dim,
                               .rope = RopeSpec{config.rope_theta, {}, rotary_dim(config)},
                               .norm_eps = static_cast<float>(config.rms_norm_eps),
                               .window = config.sliding_window,
                               .output_groups = compressed.o_groups,
                               .output_rank = compressed.o_lora_rank,
                               .pool = compressed.ratios[layer]};
  spec.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  if (spec.pool == 0) return spec;
  spec.rope = {compressed.rope_theta, config.rope_scaling, rotary_dim(config)};
  spec.rope->scaling.attention_factor = spec.rope->scaling.score_factor = 1.0;
  if (!compressed.has_sources && spec.pool != kOverlappingRatio) return spec;
  spec.overlap = !compressed.has_sources;
  spec.indexer = IndexerSpec{.num_heads = config.indexer.n_heads,
                             .head_dim = config.indexer.head_dim,
                             .top_k = config.indexer.topk * spec.pool,
                             .pool = spec.pool,
                             .reads_pools = true};
  return spec;
}

// All layers with pools have an indexer, or the choice of an earlier layer.
CompressedAttentionSpec shared_compressed_attention(const CheckpointConfig& config, std::size_t layer) {
  const CompressedAttentionConfig& compressed = config.compressed;
  CompressedAttentionSpec spec = compressed_attention(config, layer);
  spec.query_head_norm = false;
  spec.rounds = true;
  if (spec.pool == 0) return spec;
  spec.pool_addends = false;
  spec.keys_of_latents = true;
  spec.shared_pools_layer = pool_source_of(compressed, layer);
  const std::size_t source = index_source_of(compressed, layer);
  spec.indexer->is_shared = source != layer;
  if (compressed.has_candidates(source))
    spec.indexer->candidates = CandidatesSpec{.block_size = compressed.candidate_block_size,
                                              .blocks = compressed.candidate_blocks,
                                              .chooses_candidates = source == compressed.candidate_source};
  return spec;
}

MixtureOfExpertsSpec experts(const CheckpointConfig& config) {
  MixtureOfExpertsSpec spec = experts_of(config);
  spec.router.scoring = RouterSpec::Scoring::sqrt_softplus;
  spec.router.correction_bias = true;
  spec.router.normalize = true;
  spec.router.added_to_sum = 1e-20F;
  spec.router.scale = static_cast<float>(config.experts.routed_scaling_factor);
  spec.shared_intermediate_size = config.experts.n_shared_experts * config.experts.moe_intermediate_size;
  spec.limits_gate = true;
  return spec;
}

ModelSpec deepseek_v4_spec(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  ignore_next_token_layers(config, spec.names);  // GGUF files store them after the last layer
  set_experts(config, experts(config), spec, [](std::size_t) { return true; });
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    BlockSpec& block = spec.blocks[layer];
    block.attention = compressed_attention(config, layer);
    block.hyper_connection = HyperConnectionSpec{.streams = config.hyper_connection.mult,
                                                 .norm_eps = static_cast<float>(config.rms_norm_eps),
                                                 .eps = static_cast<float>(config.hyper_connection.eps),
                                                 .sinkhorn_steps = config.hyper_connection.sinkhorn_iters};
    auto& moe = std::get<MixtureOfExpertsSpec>(block.feed_forward);
    moe.limit = limit_of(config.experts.swiglu_limits, layer);
    moe.shared_limit = shared_limit_of(config.experts, layer);
    if (layer >= config.experts.num_hash_layers) continue;
    moe.router.correction_bias = false;
    moe.router.token_table = config.vocab_size;
  }
  return spec;
}

ModelSpec deepseek_v41_spec(const CheckpointConfig& config) {
  ModelSpec spec = deepseek_v4_spec(config);
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    spec.blocks[layer].attention = shared_compressed_attention(config, layer);
    spec.blocks[layer].hyper_connection->lags = true;
  }
  // bias_vl, of the routers of tokens of images
  spec.unused_parameters = spec.blocks.size() * config.num_experts;
  set_engram_tables(config, spec);
  return spec;
}

BlockNames deepseek_v4_block(const std::string& prefix) {
  BlockNames names;
  names.input_norm = prefix + "attn_norm";
  names.pre_feed_forward_norm = prefix + "ffn_norm";
  names.attention_connection = usual_names(kAttentionConnectionTensors, prefix + "hc_attn_");
  names.feed_forward_connection = usual_names(kFeedForwardConnectionTensors, prefix + "hc_ffn_");
  names.compressed_attention = usual_names(kCompressedAttentionTensors, prefix + "attn.");
  names.compressed_attention.compressor = usual_names(kCompressorTensors, prefix + "attn.compressor.");
  names.compressed_attention.index_compressor =
      usual_names(kIndexCompressorTensors, prefix + "attn.indexer.compressor.");
  const std::string experts = prefix + "ffn.";
  const GatedMlpNames parts{.gate_proj = "w1", .up_proj = "w3", .down_proj = "w2"};
  const std::string shared = experts + "shared_experts.";
  names.experts.router = experts + "gate";
  names.experts.correction_bias = experts + "gate.bias";
  names.experts.token_table = experts + "gate.tid2eid";
  names.experts.experts = experts + "experts.";
  names.experts.parts = parts;
  names.experts.shared_expert = {.gate_proj = shared + parts.gate_proj,
                                 .up_proj = shared + parts.up_proj,
                                 .down_proj = shared + parts.down_proj};
  return names;
}

BlockNames deepseek_v41_block(const std::string& prefix) {
  BlockNames names = deepseek_v4_block(prefix);
  names.hash_table = usual_names(kEngramTensors, prefix + "engram.");
  return names;
}

}  // namespace

Family deepseek_v4() {
  Family family = llama_like("DeepseekV4ForCausalLM", deepseek_v4_spec, deepseek_v4_block);
  family.names.prefix.clear();
  family.names.embed_tokens = "embed";
  family.names.lm_head = "head";
  family.names.last_connection = usual_names(kLastConnectionTensors, "hc_head_");
  family.names.ignored_prefixes = {"mtp."};
  family.gguf = {.architecture = "deepseek4", .config = deepseek_v4_config, .read_only = true};
  // RoPE with one set of parameters for each kind of layer, and layer_types, are names of transformers 5,
  // which also names tensors differently.
  family.fixed_fields = {{"scoring_func", R"("sqrtsoftplus")"},
                         {"topk_method", R"("noaux_tc")"},
                         {"norm_topk_prob", "true"},
                         {"attention_bias", "false"},
                         {"n_group", "1"},
                         {"topk_group", "1"},
                         {"indexer_types", "null"},
                         {"layer_types", "null"},
                         {"rope_parameters", "null"}};
  family.defaults.max_position_embeddings = 1048576;
  family.defaults.intermediate_size = 2048;  // no layer's: see read_compressed_attention
  family.defaults.sliding_window = 128;
  family.defaults.num_key_value_heads = 1;
  family.defaults.compressed = {.q_lora_rank = 1024, .head_dim = 512, .o_groups = 8, .o_lora_rank = 1024};
  family.defaults.indexer.topk = 512;
  family.defaults.indexer.n_heads = 64;
  family.defaults.indexer.head_dim = 128;
  family.defaults.hyper_connection.mult = 4;
  family.defaults.hyper_connection.sinkhorn_iters = 20;
  family.defaults.experts.n_shared_experts = 1;
  family.defaults.experts.routed_scaling_factor = 1.5;
  family.defaults.experts.swiglu_limit = 10.0;
  family.defaults.experts.num_hash_layers = 3;
  return family;
}

// Tensors of images, and bias_vl, which is for their tokens, are left out.
Family deepseek_v41() {
  Family family = derived(deepseek_v4(), "DeepseekV41ForCausalLM", deepseek_v41_spec, deepseek_v41_block);
  family.gguf = {.architecture = "deepseek41",
                 .config = deepseek_v41_config,
                 .read_only = true,
                 .adapt_names = adapt_deepseek_v41_names};
  family.names.gguf.block.hash_table = gguf_names(kEngramTensors);
  family.names.last_connection = {};
  for (const char* const of_images : {".ffn.gate.bias_vl", ".exp_probs_b_vl.bias"})
    family.names.buffers.emplace_back(of_images);
  family.fixed_fields.push_back({"gate_temp", "1"});
  family.defaults.experts.num_hash_layers = 0;
  family.defaults.compressed.has_sources = true;
  family.defaults.compressed.q_lora_rank = 1280;
  family.defaults.hash_table = {.ngram_size = 4,
                                .heads_per_ngram = 8,
                                .vocab_size_base = 16'000'000,
                                .boundary = 2,
                                .folded_vocab_size = 99'092,
                                .row_size = 256};
  return family;
}

}  // namespace tp::families
