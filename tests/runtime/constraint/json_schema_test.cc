// JSON Schemas: allowed texts, and rejected schemas.
#include "tests/expect_contains.h"
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::constraint {
namespace {

struct Case {
  const char* schema;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {R"({})", {"1", "\"a\"", "{\"a\": [1, 2, {\"b\": null}]}", "[]", "true"}, {"", "tru", "{a:1}", "01"}},
      {R"({"type": "object"})", {"{}", "{ }", "{\n  \"a\": 1\n}"}, {"[]", "{\"a\"}", "{\"a\" :1}"}},
      {R"({"type": "string"})",
       {R"("")", R"("é☃")", R"("\u00e9\ud83d\ude00")", R"("\"\\\/\b\n")"},
       {R"("\ud83d")", R"("\x")", "\"a\nb\"", R"("\ude00\ud83d")", "\"\xFF\""}},
      {R"({"type": "string", "minLength": 2, "maxLength": 4})",
       {R"("ab")", R"("☃☃☃☃")", R"("\ud83d\ude00\n")"},
       {R"("a")", R"("abcde")", R"("\ud83d\ude00")"}},
      {R"({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"})", {R"("AB-17")"}, {R"("AB-")", R"("xAB-17")"}},
      {R"({"pattern": "b+"})", {R"("b")", R"("xx\nbby")"}, {R"("ac")"}},
      {R"({"pattern": "^\"\\\\$"})", {R"("\"\\")"}, {R"("")"}},
      {R"({"pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3})",
       {R"("ab")", R"("abc")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type": "integer"})", {"0", "-5", "123456789012"}, {"1.0", "01", "+1", "1e3", "-"}},
      {R"({"type": "number"})", {"0", "-5.25", "1e5", "2E-7", "0.1"}, {".5", "1.", "1e", "0x1"}},
      {R"({"type": "integer", "minimum": 5, "exclusiveMaximum": 21})",
       {"5", "9", "10", "20"},
       {"4", "21", "-5", "100"}},
      {R"({"type": "number", "exclusiveMinimum": 0, "maximum": 1.5})",
       {"0.1", "1", "1.5", "1.50", "1.49999"},
       {"0", "0.0", "1.51", "2", "-1"}},
      {R"({"enum": ["a", 1, null, {"b": [2]}]})",
       {"\"a\"", "1", "null", "{\"b\": [2]}", "{ \"b\":[\n2 ] }"},
       {"2", "\"b\""}},
      {R"({"enum": ["a", 1, "bcd"], "type": "string", "maxLength": 2})", {"\"a\""}, {"1", "\"bcd\""}},
      {R"({"const": "x y"})", {"\"x y\""}, {"\"x\""}},
      {R"({"type": ["integer", "null"]})", {"1", "null"}, {"true"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}, "required": ["b"]})",
       {R"({"b": ""})", R"({"a": 1, "b": "x"})", R"({"a":1,"b":"","c":[1]})", R"({"b": "", "c": 1})"},
       {R"({})", R"({"a": 1})", R"({"b": 1})", R"({"b": "", "d": 1})", R"({"b": "", })", R"({, "b": ""})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})",
       {R"({})", R"({"a": 1})", R"({"a": 1, "b": true})", R"({"b": true, "ab": false, "": true})"},
       {R"({"a": true})", R"({"b": 1})", R"({"\u0061": true})"}},
      {R"({"type": "object", "required": ["z"]})",
       {R"({"z": 1})", R"({"z": 1, "y": 2})"},
       {R"({})", R"({"y": 2})"}},
      {R"({"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "integer"}})",
       {R"({"a": 1})", R"({"a": 1, "b": 2})"},
       {R"({})", R"({"a": 1, "b": 2, "c": 3})"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[1, 2, 3]", "[\n  1,\n  2\n]"},
       {"[]", "[1, 2, 3, 4]", "[\"a\"]", "[1,]"}},
      {R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "boolean"}})",
       {"[]", "[1]", "[1, \"a\"]", "[1, \"a\", true, false]"},
       {"[\"a\"]", "[1, 2]", "[1, true]"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}], "items": false})", {"[]", "[1]"}, {"[1, 2]"}},
      {R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 1})",
       {R"(["a"])", R"(["c", "a", "b"])"},
       {R"([])", R"(["a", "a"])", R"(["a", "b", "c", "a"])"}},
      {R"({"anyOf": [{"type": "integer"}, {"const": "x"}]})", {"1", "\"x\""}, {"\"y\""}},
      {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                     {"type": "object", "properties": {"k": {"const": "b"}, "n": {"type": "integer"}}, "required": ["k"]}]})",
       {R"({"k": "a"})", R"({"k": "b", "n": 1})"},
       {R"({"k": "a", "n": 1})", R"({"k": "c"})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
       {R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "b": 1})"},
       {R"({})"}},
      {R"({"allOf": [{"properties": {"a": {"type": "number"}}, "required": ["a"]}, {"properties": {"a": {"minimum": 3}, "b": {"const": 1}}}]})",
       {R"({"a": 3.5})", R"({"a": 4, "b": 1})"},
       {R"({"b": 1})", R"({"a": 2})"}},
      {R"({"allOf": [{"type": "object", "properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]})",
       {R"({"a": 1})", R"({})"},
       {R"({"b": 1})"}},
      {R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}})",
       {R"({"v": 1})", R"({"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3}]})"},
       {R"({"v": 1, "kids": [{}]})"}},
      {R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})",
       {R"({"next": null})", R"({"next": {"next": {"next": null}}})"},
       {R"({})"}},
      {R"({"format": "date"})",
       {"\"2024-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-1-1\""}},
      {R"({"format": "date-time"})",
       {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.123+05:30\""},
       {"\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""}},
      {R"({"format": "time"})", {"\"12:00:00Z\""}, {"\"12:00Z\""}},
      {R"({"format": "email"})", {"\"a.b+c@example.co.uk\""}, {"\"a@\"", "\"@b.c\"", "\"a..b@c.de\""}},
      {R"({"format": "uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""}},
      {R"({"format": "ipv4"})",
       {"\"192.168.0.1\"", "\"255.255.255.255\""},
       {"\"256.1.1.1\"", "\"01.1.1.1\""}},
      {R"({"format": "ipv6"})",
       {"\"::\"", "\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"1:2:3:4:5:6:7:8\""},
       {"\":::\"", "\"1:2:3:4:5:6:7\"", "\"1::2::3\""}},
      {R"({"format": "uri"})", {"\"https://example.com:80/a/b?c=d#e\""}, {"\"example\"", "\"http:// x\""}},
  };
  return table;
}

TEST(JsonSchema, AllowsExactlyTheValidTexts) {
  for (const Case& one : cases()) {
    try {
      TextMatcher matcher(Constraint(JsonSchema{one.schema}));
      for (const std::string& text : one.valid)
        EXPECT_TRUE(matcher.matches(text)) << one.schema << "\n" << text;
      for (const std::string& text : one.invalid)
        EXPECT_FALSE(matcher.matches(text)) << one.schema << "\n" << text;
    } catch (const RequestError& error) {
      ADD_FAILURE() << one.schema << "\n" << error.what();
    }
  }
}

TEST(JsonSchema, CompactJsonHasNoWhiteSpace) {
  TextMatcher matcher(Constraint(JsonSchema{R"({"type": "array"})", JsonSpace::compact}));
  EXPECT_TRUE(matcher.matches(R"([1,{"a":2}])"));
  EXPECT_FALSE(matcher.matches("[1, 2]"));
}

TEST(JsonSchema, BoundsOfWholeNumbersAreExact) {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{{0, 0},
                                                                  {0, 9},
                                                                  {1, 10},
                                                                  {5, 105},
                                                                  {-7, 7},
                                                                  {-120, -15},
                                                                  {99, 1001},
                                                                  {-1, 0},
                                                                  {10, 20},
                                                                  {345, 352}}) {
    TextMatcher matcher(Constraint(JsonSchema{"{\"type\": \"integer\", \"minimum\": " + std::to_string(low) +
                                              ", \"maximum\": " + std::to_string(high) + "}"}));
    for (int value = -1500; value <= 1500; ++value)
      ASSERT_EQ(matcher.matches(std::to_string(value)), low <= value && value <= high)
          << value << " in " << low << ".." << high;
  }
}

// Hundredths, written with up to three digits after the point.
TEST(JsonSchema, BoundsOfDecimalsAreExact) {
  const std::vector<int> bounds = {-1050, -250, -200, -5, 0, 5, 10, 99, 100, 101, 250, 1050};
  const auto decimal = [](int hundredths) {
    const std::string digits = std::to_string(1000 + std::abs(hundredths) % 100).substr(2);
    return std::string(hundredths < 0 ? "-" : "") + std::to_string(std::abs(hundredths) / 100) + "." + digits;
  };
  for (const int low : bounds) {
    for (const int high : bounds) {
      for (const bool open : {false, true}) {
        if (high < low || (open && high == low)) continue;
        const std::string prefix = open ? "exclusiveM" : "m";
        TextMatcher matcher(
            Constraint(JsonSchema{"{\"type\": \"number\", \"" + prefix + "inimum\": " + decimal(low) +
                                  ", \"" + prefix + "aximum\": " + decimal(high) + "}"}));
        for (int value = -1200; value <= 1200; value += 1) {
          const bool expected = open ? low < value && value < high : low <= value && value <= high;
          if (value == 0 && decimal(value)[0] == '-') continue;
          ASSERT_EQ(matcher.matches(decimal(value)), expected)
              << decimal(value) << " in " << decimal(low) << ".." << decimal(high) << open;
          ASSERT_EQ(matcher.matches(decimal(value) + "0"), expected) << decimal(value);
          if (value % 100 == 0) {
            ASSERT_EQ(matcher.matches(std::to_string(value / 100)), expected) << value / 100;
          }
        }
      }
    }
  }
}

TEST(JsonSchema, NamesUnsupportedPartsByPointer) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"{", "the JSON Schema is not JSON"},
      {"5",
       "the JSON Schema at `/`: expected a schema, which is an object, true or false, found `5`; correct it"},
      {R"({"properties": {"a/b": {"uniqueItems": true}}})", "at `/properties/a~1b/uniqueItems`"},
      {R"({"items": {"type": "objekt"}})",
       "at `/items/type`: expected object, array, string, number, integer, boolean or null, found "
       "`\"objekt\"`"},
      {R"({"patternProperties": []})", "at `/patternProperties`: expected an object of schemas"},
      {R"#({"pattern": "(?<=a)"})#", "the JSON Schema at `/pattern`: a group"},
      {R"({"$ref": "other.json"})", "at `/$ref`: expected a reference to a part of the same document"},
      {R"({"$ref": "#/$defs/none"})", "found `\"#/$defs/none\"`"},
      {R"({"$ref": "#"})", "expected references that end at a schema, found one that leads back to itself"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
       "at `/oneOf`: expected branches that exclude each other"},
      {R"({"minLength": -1})", "at `/minLength`: expected a whole number from 0 to 1000000, found `-1`"},
      {R"({"uniqueItems": true})", "at `/uniqueItems`"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})", "the constraint allows no text at all"},
      {R"({"type": "object", "properties": {"a": false}, "required": ["a"]})",
       "the constraint allows no text at all"},
  };
  for (const auto& [schema, text] : refused) {
    EXPECT_CONTAINS(error_of(JsonSchema{schema}), text) << schema;
  }
}

// Each schema is rejected, or stays within the limits.
TEST(JsonSchema, HostileSchemasEndQuickly) {
  std::string deep = "{}";
  for (int i = 0; i < 500; ++i) deep = "{\"items\": " + deep + "}";
  std::string wide = "{\"type\": \"object\", \"properties\": {";
  for (int i = 0; i < 20000; ++i)
    wide += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\": {\"type\": \"string\"}";
  std::string bomb = "{\"$defs\": {\"d0\": {\"type\": \"string\"}";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "{\"$ref\": \"#/$defs/d" + std::to_string(i - 1) + "\"}";
    bomb += ", \"d" + std::to_string(i) + "\": {\"anyOf\": [" + before + ", {\"items\": " + before + "}, " +
            before + "]}";
  }
  bomb += "}, \"$ref\": \"#/$defs/d39\"}";
  std::string product = "{\"allOf\": [";
  for (int i = 0; i < 12; ++i)
    product +=
        std::string(i > 0 ? ", " : "") +
        "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}, {\"const\": " + std::to_string(i) +
        "}]}";
  product += "]}";
  const std::string repeated =
      R"({"items": {"items": {"items": {"type": "string", "maxLength": 1000000}, "maxItems": 1000000}, "maxItems": 1000000}})";
  for (const std::string& schema : {deep, wide + "}}", bomb, product, repeated}) {
    try {
      TextMatcher matcher(Constraint(JsonSchema{schema}));
      EXPECT_LT(matcher.machine().automaton().positions.size(), 200001U);
    } catch (const RequestError& error) {
      EXPECT_NE(std::string(error.what()), "");
    }
  }
}

}  // namespace
}  // namespace tp::constraint
