// Parameter types in tools' schemas.
#include "runtime/chat/tool_set.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using Json = nlohmann::ordered_json;

ToolSet set_of(const std::string& schema) {
  return ToolSet(Json::array(
      {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", Json::parse(schema)}}}}}));
}

ValueTypes types_of(const std::string& property, const std::string& definitions = "{}") {
  return set_of(R"({"properties": {"p": )" + property + R"(}, "$defs": )" + definitions + "}")
      .types_of("f", "p");
}

TEST(ToolSet, KnowsTheTypesThatSchemasAllow) {
  EXPECT_EQ(types_of(R"({"type": "integer"})"), kNumber);
  EXPECT_EQ(types_of(R"({"type": ["string", "null"]})"), kText | kNull);
  EXPECT_EQ(types_of(R"({"anyOf": [{"type": "boolean"}, {"enum": [1, "a"]}]})"), kBoolean | kNumber | kText);
  EXPECT_EQ(types_of(R"({"allOf": [{"type": ["string", "number"]}, {"type": "string"}]})"), kText);
  EXPECT_EQ(types_of(R"({"pattern": "a+", "nullable": true})"), kText | kNull);
  EXPECT_EQ(types_of("true"), kAnyType);
}

// A reference is the part of a URI, so its pointer may be percent-encoded.
TEST(ToolSet, FollowsReferences) {
  const std::string definitions =
      R"({"a b": {"type": "boolean"}, "c/d": {"type": "array"}, "%41": {"type": "null"}})";
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/a b"})", definitions), kBoolean);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/a%20b"})", definitions), kBoolean);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/c~1d"})", definitions), kList);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/%41"})", definitions), kNull);
  for (const char* other : {"#/$defs/none", "#name", "https://example.com/a", "a", ""})
    EXPECT_EQ(types_of(R"({"$ref": ")" + std::string(other) + "\"}", definitions), kAnyType) << other;
  EXPECT_EQ(types_of(R"({"$ref": "#/properties/p"})"), kAnyType);
}

// References multiply. Without a limit, this schema would have 100^16 parts.
TEST(ToolSet, ReadsSchemasThatMultiplyInBoundedTime) {
  std::string choices;
  for (int i = 0; i < 100; ++i) choices += std::string(i == 0 ? "" : ", ") + R"({"$ref": "#/$defs/x"})";
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/x"})", R"({"x": {"anyOf": [)" + choices + "]}}"), kAnyType);
}

// A parser may skip a byte order mark, but clients' parsers don't.
TEST(ValueTypes, AByteOrderMarkBeginsAText) {
  for (const char* value : {"1", "true", "\"a\"", "{}"}) {
    const std::string text = std::string("\xEF\xBB\xBF") + value;
    EXPECT_EQ(value_as_json(text, kAnyType), Json(text).dump());
    EXPECT_EQ(value_as_json(value, kAnyType), value);
  }
}

}  // namespace
}  // namespace tp::test
