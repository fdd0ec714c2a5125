#include "model/files/strict_json.h"

#include "model/files/file_notices.h"
#include "model/files/json_node.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string error_in(const std::string& text) {
  return test::error_of<JsonError>([&] { parse_strict_json(text); });
}

TEST(StrictJson, MatchesTheLibrary) {
  for (const std::string text :
       {R"({"b":[1,-2,3.5,true,null,"xé",[]],"a":{"b":{},"c":{"a":[{"a":1},{"a":2}]}},"":0})", "[[],[[1],2]]",
        " 3 ", "\"a\\nb\"", "null", "18446744073709551615", "-9223372036854775808"}) {
    EXPECT_EQ(parse_strict_json(text), json::parse(text)) << text;
    EXPECT_EQ(parse_strict_json<ordered_json>(text).dump(), ordered_json::parse(text).dump()) << text;
  }
}

TEST(StrictJson, RefusesAKeyThatAnObjectHasTwice) {
  EXPECT_EQ(error_in(R"({"a":1,"b":2,"a":1})"), "an object has the key a twice");
  EXPECT_EQ(error_in(R"({"a":null,"a":null})"), "an object has the key a twice");
  EXPECT_EQ(error_in(R"({"a":{"a":1},"b":[{"\u0061":1,"a":2}]})"), "an object has the key a twice");
  EXPECT_EQ(error_in("{\"\\u001b[2J\":1,\"\\u001b[2J\":2}"), "an object has the key ?[2J twice");
  EXPECT_EQ(test::error_of<JsonError>([] { parse_strict_json<ordered_json>(R"({"a":1,"a":1})"); }),
            "an object has the key a twice");
}

// Keys with equal beginnings, with bytes that are negative as chars, and with zeros, as in vocabularies.
TEST(StrictJson, DistinguishesTheKeysOfALargeObject) {
  std::vector<std::string> keys = {"",       "a",     std::string("a\0", 2), std::string("a\0\0b", 4),
                                   "\u007f", "\u00e9"};
  for (int i = 0; i < 3000; ++i) {
    keys.push_back(std::to_string(i * 7919 % 3000));
    keys.push_back("a long beginning " + keys.back());
    keys.push_back("\u4e2d" + keys.back());
  }
  ordered_json object = ordered_json::object();
  for (std::size_t i = 0; i < keys.size(); ++i) object[keys[i]] = i;
  const std::string text = object.dump();
  EXPECT_EQ(parse_strict_json(text), json::parse(text));
  EXPECT_EQ(parse_strict_json(text).dump(), json::parse(text).dump());
  EXPECT_EQ(parse_strict_json<ordered_json>(text).dump(), text);
  for (const std::string& key : {keys[2], keys[5], keys[1000], keys.back()}) {
    const std::string again = text.substr(0, text.size() - 1) + "," + json(key).dump() + ":1}";
    EXPECT_CONTAINS(error_in(again), "twice") << key;
    EXPECT_NE(test::error_of<JsonError>([&] { parse_strict_json<ordered_json>(again); }), "") << key;
  }
}

TEST(StrictJson, RefusesNestingWithoutEnd) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(parse_strict_json(nested(64)).dump(), nested(64));
  EXPECT_EQ(error_in(nested(65)), "lists and objects are nested deeper than 64 levels");
  EXPECT_EQ(error_in(std::string(1'000'000, '[')), "lists and objects are nested deeper than 64 levels");
}

TEST(PythonJson, TakesWhatPythonWritesAndReads) {
  std::vector<std::string> repeated;
  const auto parsed = [&](const std::string& text) {
    repeated.clear();
    return parse_python_json(text, [&](const std::string& key) { repeated.push_back(key); });
  };
  EXPECT_EQ(parsed(R"({"a":1,"b":2,"a":3,"c":{"b":1,"b":[]},"a":4})"),
            json::parse(R"({"a":4,"b":2,"c":{"b":[]}})"));
  EXPECT_EQ(repeated, (std::vector<std::string>{"b", "a"})) << "once for every object";
  EXPECT_EQ(parsed(R"([Infinity, -Infinity,NaN , {"Infinity":"a \"NaN, -Infinity"}])"),
            json::parse(R"(["Infinity", "-Infinity", "NaN", {"Infinity":"a \"NaN, -Infinity"}])"));
  EXPECT_EQ(repeated.size(), 0U);
  for (const std::string text : {"Infinit", "[Infinity", "\"NaN", "nan", "[--Infinity]", "[1e999]"})
    EXPECT_NE(test::error_of<JsonError>([&] { parsed(text); }), "") << text;
}

TEST(PythonJson, KeepsTextsThatLookLikeNumbers) {
  const auto parsed = [](const std::string& text) { return parse_python_json(text, nullptr); };
  const std::string texts = R"({"NaN":["-Infinity","a\\"," NaN\" Infinity",-1]})";
  EXPECT_EQ(parsed(texts), json::parse(texts));
  EXPECT_EQ(parsed(R"({"NaN":NaN,"a":["\\",-Infinity,-1,Infinity],"b":"NaN"})"),
            json::parse(R"({"NaN":"NaN","a":["\\","-Infinity",-1,"Infinity"],"b":"NaN"})"));
}

// Such an object of 20 MB used to take hours.
TEST(PythonJson, DropsRepeatedKeysInLinearTime) {
  constexpr int kKeys = 100'000;
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) text += fmt::format("\"\":{},\"b\":{},", i, 2 * i);
  text += "\"c\":0}";
  std::vector<std::string> repeated;
  const json parsed = parse_python_json(text, [&](const std::string& key) { repeated.push_back(key); });
  EXPECT_EQ(parsed, (json{{"", kKeys - 1}, {"b", 2 * (kKeys - 1)}, {"c", 0}}));
  EXPECT_EQ(repeated, std::vector<std::string>{""});
}

TEST(FileNotices, AreAFew) {
  take_file_notices();
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) text += fmt::format("{{\"{}\":0,\"{}\":1}},", i, i);
  parse_json_file(text + "0]", "config.json");
  const std::vector<std::string> notices = take_file_notices();
  ASSERT_EQ(notices.size(), kMaxFileNotices);
  EXPECT_EQ(notices.back(), "config.json: an object has the key 15 twice; its last value counts");
}

TEST(StrictJson, NamesThePlaceOfAnError) {
  EXPECT_EQ(error_in("[1,").find("parse error at line 1, column 4: "), 0U) << error_in("[1,");
  for (const std::string text : {"", "{", "[1] 2", "{\"a\"}", "\"\xff\"", "1e999", "nul"})
    EXPECT_NE(error_in(text), "");
}

}  // namespace
}  // namespace tp
