#include "model/files/similar_name.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(SimilarName, HasTheFewestEdits) {
  const std::vector<std::string> names = {"model.layers.0.mlp.gate_proj.weight",
                                          "model.layers.0.mlp.up_proj.weight", "lm_head.weight"};
  EXPECT_EQ(similar_name("model.layers.0.mlp.up_prj.weight", names), names[1]);
}

TEST(SimilarName, PrefersTheSameNameUnderAnotherPrefix) {
  const std::vector<std::string> names = {"model.layers.0.input_layernorm.weight",
                                          "language_model.model.layers.1.input_layernorm.weight"};
  EXPECT_EQ(similar_name("model.layers.1.input_layernorm.weight", names), names[1]);
  EXPECT_EQ(similar_name("transformer.h.0.ln_1.bias", std::vector<std::string>{"h.0.ln_1.bias"}),
            "h.0.ln_1.bias");
}

TEST(SimilarName, IsOneEditAwayEvenFromAShortName) {
  const std::vector<std::string> names = {"chat", "seed", "model", "n"};
  EXPECT_EQ(similar_name("chta", names), "chat");
  EXPECT_EQ(similar_name("modle", names), "model");
  EXPECT_EQ(similar_name("sed", names), "seed");
  EXPECT_EQ(similar_name("m", names), "");
  EXPECT_EQ(similar_name("seeing", names), "") << "three edits";
}

TEST(SimilarName, IsEmptyIfNothingIsSimilar) {
  EXPECT_EQ(similar_name("lm_head.weight", {}), "");
  EXPECT_EQ(similar_name("lm_head.weight", std::vector<std::string>{"a", "", "wholly.other.name"}), "");
  EXPECT_EQ(similar_name("", std::vector<std::string>{"a", ""}), "");
}

TEST(SimilarName, DoesNotSpendTimeOnHugeNames) {
  const std::vector<std::string> names(10, std::string(10'000'000, 'x'));
  EXPECT_EQ(similar_name(std::string(9'999'999, 'x'), names), "");
  EXPECT_EQ(similar_name("xxxxxxxxx", names), "");
}

}  // namespace
}  // namespace tp
