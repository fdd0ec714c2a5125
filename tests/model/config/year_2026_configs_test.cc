// Configs of this year's families: fields that change results are supported or rejected by name.
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/reference/fixture.h"
#include "tp/error.h"

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

json config_of_fixture(const std::string& fixture) {
  std::ifstream stream(reference::seeded_folder("logits", fixture) / "config.json");
  return json::parse(stream);
}

// A fixture's config with changed fields. "absent" removes a field.
json fixture_with(const std::string& fixture, const json& changes) {
  json config = config_of_fixture(fixture);
  json& fields = config.contains("text_config") ? config["text_config"] : config;
  for (const auto& [name, value] : changes.items()) {
    fields.erase(name);
    if (value != "absent") fields[name] = value;
  }
  return config;
}

struct Refusal {
  const char* fixture;
  json changes;
  const char* text;  // a part of the error
};

TEST(Configs2026, RejectUnsupportedValues) {
  const json half_turned = {
      {"full_attention", {{"rope_type", "default"}}},
      {"sliding_attention", {{"rope_type", "default"}, {"partial_rotary_factor", 2.0}}}};
  const json odd = {{"full_attention", {{"rope_type", "default"}}},
                    {"sliding_attention", {{"rope_type", "default"}, {"partial_rotary_factor", 0.2}}}};
  const json no_theta = {{"full_attention", {{"rope_type", "default"}}},
                         {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 0}}}};
  const Refusal kRefusals[] = {
      {"ling3", {{"layer_group_size", "absent"}}, "layer_group_size"},
      {"ling3", {{"kda_lower_bound", 0}}, "kda_lower_bound must be below 0"},
      {"ling3", {{"expert_swiglu_limit_list", {1, 2}}}, "a limit of at least 0"},
      {"ling2", {{"rotary_dim", 16}}, "rotary_dim must be partial_rotary_factor of head_dim, 8, found 16"},
      {"laguna", {{"rope_parameters", half_turned}}, "above 0 and at most 1, found"},
      {"laguna", {{"rope_parameters", odd}}, "an even number of a head's 16 elements, found a part of 0.2"},
      {"laguna", {{"rope_parameters", no_theta}}, "a rope_theta above 0"},
      {"laguna",
       {{"gating_types", {"per-head", "per-element", "per-head", "per-head"}}},
       "the same gates in all layers"},
      {"laguna", {{"moe_router_use_sigmoid", false}}, "moe_router_use_sigmoid must be true"},
      {"laguna", {{"num_attention_heads_per_layer", {6, 7, 8, 6}}}, "num_attention_heads_per_layer"},
      {"mimov2flash", {{"swa_head_dim", 16}}, "swa_head_dim must be 24"},
      {"step35", {{"partial_rotary_factors", {0.5, 1.0, 1.0, 0.2, 0.5, 1.0}}}, "found a part of 0.2"},
      {"step35", {{"swiglu_limits", 7.0}}, "a limit of at least 0"},
      {"step35", {{"use_rope_layers", {0, 1}}}, "use_rope_layers must be []"},
      {"exaonemoe", {{"swiglu_limits", {0.5, 0.5, 0.5, 0.5}}}, "swiglu_limits are not supported"},
      {"exaonemoe", {{"sliding_windows", {2, 2, 2, 0}}}, "sliding_windows must be null"},
      {"exaonemoe", {{"is_moe_layer", {false}}}, "with an entry for each layer"},
      {"exaonemoe",
       {{"mlp_layer_types", {"dense", "foo", "sparse", "sparse"}}},
       "a list of dense and sparse"},
      {"hunyuanmoe", {{"moe_topk", {3}}}, "the same number for each layer"},
      {"qwen3moe", {{"swiglu_limits", {1, 1, 1, 1, 1, 1, 1, 1}}}, "swiglu_limits are not supported"},
      {"qwen3", {{"rope_theta", {1e4, 1e4, 1e4}}}, "rope_theta"},
      {"minicpm4", {{"sparse_config", {{"dense_len", 8192}}}}, "sparse_config must be null"},
      {"olmohybrid",
       {{"layer_types", {"sliding_attention", "linear_attention", "linear_attention", "full_attention"}},
        {"sliding_window", 4}},
       "layer_types must be full_attention or linear_attention"},
      {"cohere2moe", {{"expert_selection_fn", "tanh"}}, "expert_selection_fn must be sigmoid or softmax"},
      {"hyv4", {{"gating_type", "headwise"}}, "gating_type must be \"elementwise\""},
      {"hyv4", {{"learnable_sink", false}}, "learnable_sink must be true"},
      {"hyv4", {{"hc_mult", 17}}, "hc_mult must be at most 16"},
      {"hyv4", {{"hc_mult", 0}}, "hc_mult"},
      {"hyv4", {{"hc_eps", -1}}, "hc_eps must be at least 0"},
      {"hyv4", {{"hc_magnitude", 0}}, "hc_magnitude above 0"},
      {"hyv4", {{"swiglu_limit", "10"}}, "swiglu_limit"},
      {"deepseekv4", {{"compress_ratios", {0, 4, 128}}}, "compress_ratios must have 0 or a number from 4"},
      {"deepseekv4", {{"compress_ratios", {0, 4, 2, 4}}}, "compress_ratios must have 0 or a number from 4"},
      {"deepseekv4", {{"num_key_value_heads", 2}}, "num_key_value_heads must be 1"},
      {"deepseekv4", {{"o_groups", 3}}, "num_attention_heads must be a multiple of o_groups"},
      {"deepseekv4", {{"index_head_dim", 4}}, "index_head_dim from qk_rope_head_dim"},
      {"deepseekv4", {{"sliding_window", 1U << 20}}, "sliding_window must be 1 to 65536"},
      {"deepseekv4", {{"scoring_func", "sigmoid"}}, "scoring_func must be \"sqrtsoftplus\""},
      {"deepseekv4", {{"norm_topk_prob", false}}, "norm_topk_prob must be true"},
      {"deepseekv4", {{"qk_rope_head_dim", "absent"}}, "qk_rope_head_dim"},
      {"deepseekv4", {{"qk_rope_head_dim", 0}}, "qk_rope_head_dim"},
      {"deepseekv4", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}, "rope_scaling must be yarn"},
      {"deepseekv4", {{"n_group", 4}}, "n_group must be 1"},
      {"deepseekv4", {{"layer_types", {"full_attention"}}}, "layer_types must be null"},
      {"deepseekv4",
       {{"compress_ratios", {0, 0, 0, 0}}, {"is_causal", false}},
       "found compressed attention; use a causal model"},
      {"deepseekv4",
       {{"rope_parameters", {{"main", {{"rope_theta", 10000}}}}}},
       "rope_parameters must be null"},
      {"glm5next", {{"hc_sinkhorn_iters", 0}}, "hc_sinkhorn_iters"},
      {"glm5next", {{"hc_sinkhorn_iters", 1001}}, "hc_sinkhorn_iters must be at most 1000"},
      {"glm5next", {{"mla_use_nope", false}}, "mla_use_nope must be true"},
      {"glm5next", {{"qk_rope_head_dim", 8}}, "qk_rope_head_dim must be 0"},
      {"glm5next", {{"index_kpool_compress", false}}, "index_kpool_compress must be true"},
      {"glm5next",
       {{"index_kpool_always_select_tail", false}},
       "index_kpool_always_select_tail must be true"},
      {"glm5next", {{"index_topk", 13}}, "index_topk must be a multiple of index_kpool"},
      {"glm5next",
       {{"indexer_types", {"full", "full", "full", "shared", "full"}}},
       "indexer_types must be \"full\" in all layers"},
      {"glm5next",
       {{"linear_attn_config", {{"full_attn_layers", {5}}}}},
       "full_attn_layers must be layers 0 to 4"},
  };
  for (const Refusal& refusal : kRefusals) {
    const json config = fixture_with(refusal.fixture, refusal.changes);
    const std::string error = test::error_of<Error>([&] { test::spec_of(config); });
    EXPECT_CONTAINS(error, refusal.text) << refusal.fixture << " " << refusal.changes;
  }
}

// If a newer transformers rewrote a file, the file keeps its old fields next to the new ones.
TEST(Configs2026, TakeTheFirstListOfLayersWithExperts) {
  const json more = {{"mlp_layer_types", {"dense", "sparse", "sparse", "sparse"}}};
  EXPECT_EQ(test::spec_of(fixture_with("exaonemoe", more)).blocks,
            test::spec_of(config_of_fixture("exaonemoe")).blocks);
  const json step = {{"moe_layers_enum", " 2, 3,4"}};
  EXPECT_EQ(test::spec_of(fixture_with("step35", step)).blocks,
            test::spec_of(config_of_fixture("step35")).blocks);
}

// In transformers 5's form, RoPE is listed by the type of layers.
TEST(Configs2026, ReadRopeByTypeOfLayers) {
  const json by_type = {
      {"rope_theta", "absent"},
      {"partial_rotary_factors", "absent"},
      {"rope_scaling", "absent"},
      {"rope_parameters",
       {{"full_attention",
         {{"rope_type", "llama3"},
          {"rope_theta", 5e6},
          {"partial_rotary_factor", 0.5},
          {"factor", 2.0},
          {"original_max_position_embeddings", 64},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 32.0}}},
        {"sliding_attention",
         {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 1.0}}}}}};
  EXPECT_EQ(test::spec_of(fixture_with("step35", by_type)).blocks,
            test::spec_of(config_of_fixture("step35")).blocks);
}

// Source: the classes of the original code.
TEST(Configs2026, HaveTheOriginalDefaults) {
  EXPECT_EQ(parse_config(fixture_with("hyv3", {{"router_scaling_factor", "absent"}}).dump(), "")
                .experts.routed_scaling_factor,
            2.826);
  EXPECT_EQ(parse_config(fixture_with("hyv3", {{"rope_parameters", "absent"}}).dump(), "").rope_theta,
            11158840.0);
  const json hyv4 = fixture_with("hyv4", {{"hc_mult", "absent"},
                                          {"hc_eps", "absent"},
                                          {"hc_magnitude", "absent"},
                                          {"indexer_types", "absent"},
                                          {"swiglu_limit", "absent"},
                                          {"num_hidden_layers", 10},
                                          {"layer_types", "absent"},
                                          {"mlp_layer_types", "absent"}});
  const ModelSpec spec = test::spec_of(hyv4);
  EXPECT_EQ(*hyper_connection_of(spec),
            (HyperConnectionSpec{.streams = 4, .norm_eps = 1e-5F, .eps = 1e-6F, .magnitude = 2.0F}));
  std::string indexers;
  for (const BlockSpec& block : spec.blocks) indexers += indexer_of(block)->is_shared ? 'S' : 'F';
  EXPECT_EQ(indexers, "FFSSSFSSSF");
  EXPECT_EQ(experts_in(spec.blocks.back())->limit, 10.0F);
  EXPECT_EQ(parse_config(fixture_with("exaonemoe", {{"sliding_window", "absent"}}).dump(), "").sliding_window,
            4096U);
  // The count of window layers begins after the dense layers, which see everything.
  const json dense = {{"layer_types", "absent"},
                      {"prefix_dense_sliding_window_pattern", "absent"},
                      {"norm_topk_prob", "absent"}};
  const CheckpointConfig cohere = parse_config(fixture_with("cohere2moe", dense).dump(), "");
  EXPECT_EQ(cohere.layer_types, (std::vector<std::string>{"full_attention", "sliding_attention",
                                                          "sliding_attention", "sliding_attention"}));
  EXPECT_TRUE(cohere.experts.norm_topk_prob);
  const CheckpointConfig afmoe = parse_config(
      fixture_with("afmoe", {{"layer_types", "absent"}, {"global_attn_every_n_layers", 2}}).dump(), "");
  EXPECT_EQ(afmoe.layer_types, (std::vector<std::string>{"sliding_attention", "full_attention",
                                                         "sliding_attention", "full_attention"}));
}

// The config of Kimi-K3's fixture with other fields of its language model.
TEST(Configs2026, RefuseVariantsOfKimiK3) {
  const Refusal kRefusals[] = {
      {"", {{"attn_res_block_size", 0}}, "attn_res_block_size"},
      {"", {{"num_hidden_layers", 2000}, {"attn_res_block_size", 1}}, "attn_res_block_size must let"},
      {"", {{"activation_situ_beta", 0}}, "activation_situ_beta and"},
      {"", {{"hidden_act", "silu"}}, "hidden_act must be \"situ\""},
      {"", {{"latent_moe_use_norm", false}}, "latent_moe_use_norm must be true"},
      {"", {{"mla_use_output_gate", false}}, "mla_use_output_gate must be true"},
      {"", {{"linear_attn_config", {{"gate_lower_bound", 1}}}}, "gate_lower_bound must be below 0"},
      {"", {{"linear_attn_config", {{"use_full_rank_gate", false}}}}, "use_full_rank_gate must be true"},
  };
  for (const Refusal& refusal : kRefusals) {
    json config = config_of_fixture("kimik3");
    config.merge_patch({{"text_config", refusal.changes}});
    const std::string error = test::error_of<Error>([&] { test::spec_of(config); });
    EXPECT_CONTAINS(error, refusal.text) << refusal.changes;
  }
}

}  // namespace
}  // namespace tp
