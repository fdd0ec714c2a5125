// DeepSeek-V4.1's config: what layers share, which variants are refused, and folded ids.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/open_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

json read_v41_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}

// The fixture's config with these fields of its language model. compress_ratios are 0, 2, 2, 1, 1, 1,
// kv_source_layer_ids 1 and 3, index_source_layer_ids 1, 3 and 5, and index_topk is 5.
json v41_config_with(const json& changes) {
  json config = read_v41_file(reference::seeded_folder("logits", "deepseekv41") / "config.json");
  config.merge_patch({{"text_config", changes}});
  return config;
}

ModelSpec v41_spec_of(const json& config) { return make_spec(parse_config(config.dump(), "config.json")); }

TEST(DeepSeekV41, RefusesVariantsByName) {
  struct Refusal {
    json changes;
    const char* text;
  };
  const Refusal kRefusals[] = {
      {{{"compress_ratios", {0, 2, 2, 1, 1}}}, "compress_ratios must have 0 or a number from 1"},
      {{{"kv_source_layer_ids", {3, 1}}}, "kv_source_layer_ids must be layers with"},
      {{{"kv_source_layer_ids", {0, 3}}}, "kv_source_layer_ids must be layers with"},
      {{{"index_source_layer_ids", {1, 3, 6}}}, "index_source_layer_ids must be layers with"},
      {{{"index_source_layer_ids", {3, 5}}}, "index_source_layer_ids must contain kv_source_layer_ids"},
      {{{"kv_source_layer_ids", {3}}}, "up to layer 1 must have the compress_ratios of this layer, 2"},
      {{{"kv_source_layer_ids", {1}}}, "up to layer 3 must have the compress_ratios of this layer, 1"},
      {{{"kv_source_layer_ids", json::array()}}, "found no such layer"},
      {{{"candidate_source_layer_id", 4}}, "candidate_source_layer_id must be one of"},
      {{{"candidate_source_layer_id", 1}}, "at least the last of kv_source_layer_ids, 3, found 1"},
      {{{"candidate_topk_blocks", 65537}}, "candidate_topk_blocks must be at most"},
      {{{"candidate_block_size", 0}}, "candidate_block_size"},
      {{{"gate_temp", 2.0}}, "gate_temp must be 1"},
      {{{"scoring_func", "sigmoid"}}, "scoring_func must be"},
      {{{"num_key_value_heads", 2}}, "num_key_value_heads must be 1"},
      {{{"layer_types", {"full_attention"}}}, "layer_types must be null"},
  };
  for (const Refusal& refusal : kRefusals) {
    const std::string error = test::error_of<Error>([&] { v41_spec_of(v41_config_with(refusal.changes)); });
    EXPECT_CONTAINS(error, refusal.text) << refusal.changes;
  }
}

// Layers: M makes pools and chooses, c chooses, s shares a choice, - has a window only. The indexer whose
// choice a layer uses: c chooses candidates, r chooses among them.
TEST(DeepSeekV41, GivesLayersThePoolsAndChoicesOfEarlierLayers) {
  json config = v41_config_with(json::object());
  config["text_config"].erase("candidate_source_layer_id");  // the last of kv_source_layer_ids
  const ModelSpec spec = v41_spec_of(config);
  std::vector<std::size_t> pools;
  std::string layers;
  std::string candidates;
  for (const BlockSpec& block : spec.blocks) {
    const auto& attention = std::get<CompressedAttentionSpec>(block.attention);
    pools.push_back(attention.pool);
    layers += attention.makes_pools() ? 'M' : attention.chooses() ? 'c' : attention.pool != 0 ? 's' : '-';
    if (!attention.indexer || !attention.indexer->candidates)
      candidates += '-';
    else
      candidates += attention.indexer->candidates->chooses_candidates ? 'c' : 'r';
    EXPECT_FALSE(attention.query_head_norm);
    EXPECT_TRUE(attention.rounds);
    EXPECT_TRUE(block.hyper_connection->lags);
  }
  EXPECT_EQ(pools, (std::vector<std::size_t>{0, 2, 2, 1, 1, 1}));
  EXPECT_EQ(layers, "-MsMsc");
  EXPECT_EQ(candidates, "---ccr");
  EXPECT_EQ(shared_cache_layer(spec.blocks[1]), std::nullopt);
  EXPECT_EQ(shared_cache_layer(spec.blocks[2]), 1U);
  EXPECT_EQ(shared_cache_layer(spec.blocks[5]), 3U);
  EXPECT_FALSE(can_divide_layers(spec));
  EXPECT_EQ(stream_weights_of(spec), 4U);
}

// Three blocks of four pools. A token that sees 14 pools has the candidates of two whole blocks and the last
// two pools.
TEST(DeepSeekV41, ChoosesNoMorePoolsThanThereAreCandidates) {
  IndexerSpec indexer{.top_k = 11,
                      .pool = 1,
                      .reads_pools = true,
                      .candidates = CandidatesSpec{.block_size = 4, .blocks = 3}};
  EXPECT_EQ(indexer.dense_pools(), 11U);
  EXPECT_EQ(indexer.chosen_pools(9), 9U);
  EXPECT_EQ(indexer.chosen_pools(12), 11U);
  EXPECT_EQ(indexer.chosen_pools(13), 9U);
  EXPECT_EQ(indexer.chosen_pools(14), 10U);
  EXPECT_EQ(indexer.chosen_pools(15), 11U);
  EXPECT_EQ(indexer.chosen_pools(16), 11U);
  indexer.top_k = 20;
  EXPECT_EQ(indexer.dense_pools(), 12U);
  EXPECT_EQ(indexer.chosen_pools(13), 9U);
  EXPECT_EQ(indexer.chosen_pools(16), 12U);
  indexer.candidates->chooses_candidates = true;
  EXPECT_EQ(indexer.dense_pools(), 12U);
  EXPECT_EQ(indexer.chosen_pools(16), 16U);
  EXPECT_EQ(indexer.chosen_pools(21), 20U);
}

// The map is the original code's, of the same tokenizer.
TEST(DeepSeekV41, FoldsIdsByTheTokenizerBesideTheConfig) {
  const CheckpointConfig config = load_config(reference::fixture("deepseekv41").folder);
  const json map = read_v41_file(std::filesystem::path(TP_TEST_DATA) / "engram" / "engram_token_map.json");
  EXPECT_EQ(config.hash_table.token_map, map.at("folded_ids").get<std::vector<TokenId>>());
  EXPECT_EQ(parse_config(config.document.text, config.document.file), config);
}

TEST(DeepSeekV41, IsNotLoadedWithoutATokenizer) {
  const std::filesystem::path fixture = reference::fixture("deepseekv41").folder;
  const test::TemporaryDirectory folder;
  for (const char* const file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(fixture / file, folder.path() / file);
  const ModelSpec spec = make_spec(load_config(folder.path()));
  const auto source = open_checkpoint(folder.path());
  const std::string error = test::error_of<Error>([&] { Model(spec, *source, {0, 1}); });
  EXPECT_CONTAINS(error, "expected tokenizer.json beside config.json");
}

}  // namespace
}  // namespace tp
