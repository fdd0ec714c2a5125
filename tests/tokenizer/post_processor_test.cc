#include "model/tokenizer/post_processor.h"

#include "tests/tokenizer/test_tokenizer.h"
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

TEST(PostProcessor, RefusesTemplatesThatMakeNoSense) {
  EXPECT_THROW(read(processor({})), CheckpointError);
  EXPECT_THROW(read(processor({text, text})), CheckpointError);
  EXPECT_THROW(read(processor({special("<nowhere>"), text})), CheckpointError);
  EXPECT_THROW(read(processor({special("<far>"), text})), CheckpointError);
  EXPECT_THROW(read(processor({{{"Sequence", {{"id", "B"}}}}})), CheckpointError);
}

}  // namespace
}  // namespace tp
