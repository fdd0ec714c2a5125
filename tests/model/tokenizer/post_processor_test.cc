#include "model/tokenizer/steps/post_processor.h"

#include "tests/model/tokenizer/test_tokenizer.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

PostProcessor read(const json& part) {
  return post_processor_from_json(testing::node_of(part), [](TokenId id) { return id < 10; });
}

const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};

json special(const std::string& name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }

json processor(const std::vector<json>& single) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"special_tokens",
           {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}},
            {"</s>", {{"id", "</s>"}, {"ids", {2, 3}}, {"tokens", {"</s>", "."}}}},
            {"<far>", {{"id", "<far>"}, {"ids", {10}}, {"tokens", {"<far>"}}}}}}};
}

TEST(PostProcessor, PutsTokensBeforeAndAfterTheText) {
  const PostProcessor result = read(processor({special("<s>"), text, special("</s>")}));
  EXPECT_EQ(result.before, (Ids{1}));
  EXPECT_EQ(result.after, (Ids{2, 3}));
}

TEST(PostProcessor, AppliesSequencesFromTheInside) {
  const json inner = processor({special("<s>"), text});
  const json outer = processor({special("</s>"), text, special("<s>")});
  const json byte_level = {{"type", "ByteLevel"}};
  const PostProcessor result =
      read({{"type", "Sequence"}, {"processors", json::array({byte_level, inner, outer})}});
  EXPECT_EQ(result.before, (Ids{2, 3, 1}));
  EXPECT_EQ(result.after, (Ids{1}));
}

TEST(PostProcessor, CombinesTwoTextsByTheTemplate) {
  using Kind = PostProcessor::PairPiece::Kind;
  json with_pair = processor({special("<s>"), text});
  const json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  with_pair["pair"] = {special("<s>"), text, special("</s>"), second};
  const PostProcessor result = read(with_pair);
  ASSERT_EQ(result.pair.size(), 5U) << "</s> is two tokens";
  EXPECT_EQ(result.pair[1].kind, Kind::first_text);
  EXPECT_EQ(result.pair[3].token, 3);
  EXPECT_EQ(result.pair[4].kind, Kind::second_text);
  EXPECT_EQ(result.pair[4].type, 1);
  with_pair["pair"].push_back({{"Sequence", {{"id", "C"}, {"type_id", 1}}}});
  EXPECT_THROW(read(with_pair), CheckpointError);
}

// RoBERTa has one more separator, and no types.
TEST(PostProcessor, PutsTwoTextsTogetherAsBertAndRobertaDo) {
  const auto pair_of = [](const char* type) {
    return read({{"type", type}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]", 2}}}).pair;
  };
  EXPECT_EQ(pair_of("BertProcessing").size(), 5U);
  EXPECT_EQ(pair_of("BertProcessing").back().type, 1);
  EXPECT_EQ(pair_of("RobertaProcessing").size(), 6U);
  EXPECT_EQ(pair_of("RobertaProcessing").back().type, 0);
}

TEST(PostProcessor, RefusesTemplatesThatMakeNoSense) {
  EXPECT_THROW(read(processor({})), CheckpointError);
  EXPECT_THROW(read(processor({text, text})), CheckpointError);
  EXPECT_THROW(read(processor({special("<nowhere>"), text})), CheckpointError);
  EXPECT_THROW(read(processor({special("<far>"), text})), CheckpointError);
  EXPECT_THROW(read(processor({{{"Sequence", {{"id", "B"}}}}})), CheckpointError);
}

}  // namespace
}  // namespace tp
