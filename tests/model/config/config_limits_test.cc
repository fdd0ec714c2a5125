#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tests/model/config/small_config.h"
#include "tp/error.h"

#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::parse;
using test::refusal_of;
using test::refusal_with;
using test::small_config;

TEST(ConfigLimits, RefusesMorePartsThanAProgramCanHold) {
  const auto expected = [](const std::string& name, std::size_t max, std::size_t found) {
    return fmt::format("config.json: {} must be at most {}, found {}; check config.json", name, max, found);
  };
  for (const char* const name : {"num_hidden_layers", "n_layers"}) {
    json object = small_config();
    object.erase("num_hidden_layers");
    object[name] = 65537;
    EXPECT_EQ(refusal_of(object), expected("num_hidden_layers", 65536, 65537));
  }
  for (const char* const name : {"head_dim", "attention_head_size", "d_kv"})
    EXPECT_EQ(refusal_with(name, 65538), expected("head_dim", 65536, 65538));
  json experts = small_config();
  experts["architectures"] = {"MixtralForCausalLM"};
  experts["num_experts_per_tok"] = 2;
  experts["num_local_experts"] = 65537;
  EXPECT_EQ(refusal_of(experts), expected("num_experts", 65536, 65537));
  experts["num_local_experts"] = experts["num_hidden_layers"] = 2048;
  EXPECT_EQ(refusal_of(experts), expected("num_hidden_layers * num_experts", 1 << 20, 1 << 22));
  experts["num_hidden_layers"] = 512;
  EXPECT_EQ(parse(experts).num_experts, 2048U);
  experts["num_nextn_predict_layers"] = 65537;
  EXPECT_EQ(refusal_of(experts), expected("num_nextn_predict_layers", 65536, 65537));
  EXPECT_EQ(refusal_with("hidden_size", 1 << 25), expected("hidden_size", 1 << 24, 1 << 25));
}

TEST(ConfigLimits, RefusesMoreLabelsThanAProgramCanHold) {
  json object = small_config();
  object.update({{"architectures", {"BertForSequenceClassification"}}, {"num_labels", 1 << 21}});
  EXPECT_EQ(refusal_of(object),
            "config.json: num_labels must be at most 1048576, found 2097152; check config.json");
}

// A table has a number for each head and distance.
TEST(ConfigLimits, RefusesMoreDistancesOfSymmetricAlibiThanATableCanHold) {
  json object = small_config();
  object.update({{"architectures", {"JinaBertModel"}},
                 {"position_embedding_type", "alibi"},
                 {"num_key_value_heads", 8},
                 {"max_position_embeddings", 1 << 20}});
  EXPECT_EQ(make_spec(parse(object)).relative_bias->max_distance, std::size_t{1} << 20);
  object["max_position_embeddings"] = (1 << 20) + 1;
  EXPECT_EQ(test::error_of<ConfigError>([&] { make_spec(parse(object)); }),
            "max_position_embeddings must be at most 1048576 with symmetric ALiBi, found 1048577; check "
            "config.json");
}

}  // namespace
}  // namespace tp
