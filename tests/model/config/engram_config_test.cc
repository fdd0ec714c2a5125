// DeepSeek's hash tables in config.json.
#include "model/config/architectures.h"
#include "model/config/families/common.h"
#include "model/config/layer_config.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tp/error.h"

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

// The sizes of a small model: two tables of 2 heads for each length of n-grams, 2 to 4.
json engram_fields() {
  std::ifstream stream(TP_TEST_DATA "/engram/engram_token_map.json");
  return {{"engram_compressed_vocab_size", 236},
          {"engram_head_dim", 8},
          {"engram_layer_ids", {1, 4}},
          {"engram_max_ngram_size", 4},
          {"engram_n_heads", 2},
          {"engram_num_embeddings", {434, 606}},
          {"engram_pad_token_id", 2},
          {"engram_vocab_size", 60},
          {"engram_token_map", json::parse(stream).at("folded_ids")}};
}

// A model of a family with such tables.
CheckpointConfig engram_config(const json& fields) {
  json model = test::small_config();
  model["num_hidden_layers"] = 6;
  CheckpointConfig config = test::parse(model);
  config.hyper_connection.mult = 4;
  config.rms_norm_eps = 1e-20;
  config.hash_table = {.ngram_size = 3,
                       .heads_per_ngram = 8,
                       .vocab_size_base = 16'000'000,
                       .boundary = 2,
                       .folded_vocab_size = 99'092,
                       .row_size = 256};
  read_mixed_layers(JsonNode(fields, "config.json"), "config.json", config);
  return config;
}

ModelSpec engram_model(const json& fields) {
  const CheckpointConfig config = engram_config(fields);
  ModelSpec spec = make_spec(config);
  families::set_engram_tables(config, spec);
  return spec;
}

json engram_with(const std::string& field, const json& value) {
  json fields = engram_fields();
  fields[field] = value;
  return fields;
}

std::string engram_refusal(const std::string& field, const json& value) {
  return test::error_of<ConfigError>([&] { engram_model(engram_with(field, value)); });
}

TEST(EngramConfig, DescribesTheTablesOfItsLayers) {
  const ModelSpec spec = engram_model(engram_fields());
  EXPECT_FALSE(spec.blocks[0].hash_table);
  const HashTableSpec& first = spec.blocks[1].hash_table.value();
  const HashTableSpec& second = spec.blocks[4].hash_table.value();
  EXPECT_EQ(first.rows, 434U);
  EXPECT_EQ(second.rows, 606U);
  EXPECT_EQ(first.hash.sizes, (std::vector<std::uint64_t>{61, 67, 71, 73, 79, 83}));
  EXPECT_EQ(first.hash.multipliers, numpy_multipliers(1, 4, 236));
  EXPECT_EQ(second.hash.multipliers, numpy_multipliers(4, 4, 236));
  EXPECT_EQ(second.hash.heads(), 6U);
  EXPECT_EQ(second.embed_dim(), 48U);
  EXPECT_EQ(second.streams, 4U);
  EXPECT_EQ(second.conv_kernel, 0U);
  EXPECT_EQ(second.norm.eps, 1e-20F);
  EXPECT_EQ(second.hash.folded_id(12), second.hash.folded_id(35));  // a tab and a blank
}

TEST(EngramConfig, MayOmitWhatFollowsFromTheRest) {
  json fields = engram_fields();
  fields.erase("engram_num_embeddings");
  fields.erase("engram_token_map");
  fields.erase("engram_pad_token_id");
  const ModelSpec spec = engram_model(fields);
  EXPECT_EQ(spec.blocks[4].hash_table.value().rows, 606U);
  EXPECT_EQ(spec.blocks[4].hash_table.value().hash.boundary, 2);
  fields["engram_layer_ids"] = nullptr;
  EXPECT_EQ(engram_config(fields).hash_table.layers, std::vector<std::size_t>{});
  // The tables of deepseekv41-rounded.
  fields.update({{"engram_layer_ids", {2}}, {"engram_max_ngram_size", 3}, {"engram_num_embeddings", {272}}});
  EXPECT_EQ(engram_model(fields).blocks[2].hash_table.value().rows, 272U);
}

TEST(EngramConfig, ReadsBothNamesOfThePadding) {
  json fields = engram_with("engram_pad_id", 7);
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { engram_config(fields); }),
                  "engram_pad_id must be engram_pad_token_id, 2, found 7");
  fields.erase("engram_pad_token_id");
  EXPECT_EQ(engram_config(fields).hash_table.boundary, 7U);
}

TEST(EngramConfig, RejectsWhatWouldChooseOtherRows) {
  EXPECT_CONTAINS(engram_refusal("engram_num_embeddings", {434, 608}),
                  "engram_num_embeddings must be 606 for layer 4, the sum of 6 primes from 60 "
                  "(engram_vocab_size) on, found 608");
  EXPECT_CONTAINS(engram_refusal("engram_num_embeddings", {434}), "for each of the 2 layers");
  EXPECT_CONTAINS(engram_refusal("engram_vocab_size", 62), "engram_num_embeddings must be");
  EXPECT_CONTAINS(engram_refusal("engram_compressed_vocab_size", 237),
                  "engram_compressed_vocab_size must be 236, the number of tokens in tokenizer.json that "
                  "differ in more than case, accents and white space, found 237");
  EXPECT_CONTAINS(engram_refusal("engram_layer_ids", {1, 6}), "different layers below 6");
  EXPECT_CONTAINS(engram_refusal("engram_layer_ids", {4, 4}), "different layers below 6");
  EXPECT_CONTAINS(engram_refusal("engram_max_ngram_size", 1), "engram_max_ngram_size must be 2 to 64");
  EXPECT_CONTAINS(engram_refusal("engram_n_heads", 65536), "engram_max_ngram_size x engram_n_heads");
  EXPECT_CONTAINS(engram_refusal("engram_head_dim", 65537), "engram_head_dim at most 65536");
  EXPECT_CONTAINS(engram_refusal("engram_pad_token_id", 283), "the id of one of the 283 tokens, found 283");
  EXPECT_CONTAINS(engram_refusal("engram_compressed_vocab_size", 1 << 24), "must be less than 16777216");
}

}  // namespace
}  // namespace tp
