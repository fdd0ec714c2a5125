#include "model/weights/checkpoint/strict_json.h"

#include "tests/checkpoint/checkpoint_files.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string error_in(const std::string& text) {
  return test::error_of<JsonError>([&] { parse_strict_json(text); });
}

TEST(StrictJson, IsWhatTheLibraryParses) {
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

TEST(StrictJson, RefusesNestingWithoutEnd) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(parse_strict_json(nested(64)).dump(), nested(64));
  EXPECT_EQ(error_in(nested(65)), "lists and objects are nested deeper than 64 levels");
  EXPECT_EQ(error_in(std::string(1'000'000, '[')), "lists and objects are nested deeper than 64 levels");
}

TEST(StrictJson, SaysWhereATextIsNoJson) {
  EXPECT_EQ(error_in("[1,").find("parse error at line 1, column 4: "), 0U) << error_in("[1,");
  for (const std::string text : {"", "{", "[1] 2", "{\"a\"}", "\"\xff\"", "1e999", "nul"})
    EXPECT_NE(error_in(text), "");
}

}  // namespace
}  // namespace tp
