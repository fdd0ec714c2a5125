#include "runtime/gateway/request_members.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(RequestMembers, BelongToTheOutermostObject) {
  const RequestMembers members = members_of(
      R"( {"messages": [{"model": "x", "content": "\"model\": \"y\", \\"}], "n": -1.5e3 , "model" : "llama 3",
          "stream":true, "o": {"stream": false, "model": "z"}})");
  EXPECT_EQ(members.model, "llama 3");
  EXPECT_TRUE(members.stream);
}

TEST(RequestMembers, AreReadAsAParserReadsThem) {
  EXPECT_EQ(members_of(R"({"model":"a","model":"b"})").model, "b");
  EXPECT_EQ(members_of(R"({"\u006dodel":"\u00e4\"\/"})").model, "\xc3\xa4\"/");
  EXPECT_EQ(members_of(R"({"model":["a"]})").model, "");
  EXPECT_EQ(members_of(R"({"model":null,"stream":"true"})").model, "");
  EXPECT_FALSE(members_of(R"({"stream":"true"})").stream);
  EXPECT_FALSE(members_of(R"({"stream":true,"stream":false})").stream);
  EXPECT_EQ(members_of(R"({"a":{},"b":[],"c":"","model":"m"})").model, "m");
}

TEST(RequestMembers, MayFollowAByteOrderMark) {
  EXPECT_EQ(members_of("\xEF\xBB\xBF {\"model\":\"m\"}").model, "m");
  EXPECT_TRUE(begins_object("\xEF\xBB\xBF {"));
  EXPECT_FALSE(begins_object("\xEF\xBB\xBF["));
}

TEST(RequestMembers, MayFollowALongName) {
  EXPECT_EQ(members_of(R"({")" + std::string(5000, 'a') + R"(":1,"model":"b"})").model, "b");
}

TEST(RequestMembers, AreEmptyForOtherTexts) {
  for (const char* text :
       {"", "{", "{}", "[]", "null", "model", R"(["model","a"])", R"({"model")", R"({"model":)",
        R"({"model":"a)", R"({model:"a"})", R"("model":"a")", "{\"model\":\"a\\"}) {
    EXPECT_EQ(members_of(text).model, "") << text;
    EXPECT_FALSE(members_of(text).stream) << text;
  }
  EXPECT_EQ(members_of(R"({"model":")" + std::string(100000, 'a') + R"("})").model, "") << "no model's name";
}

TEST(RequestMembers, AreInTheQueryOfOtherRequests) {
  EXPECT_EQ(query_value("/metrics?model=coder", "model"), "coder");
  EXPECT_EQ(query_value("/x?a=1&model=a%2Fb&model=c", "model"), "a/b");
  for (const char* target : {"/x", "/x?", "/x?model", "/x?model=", "/x?models=a", "/x?amodel=a", "/model=a"})
    EXPECT_EQ(query_value(target, "model"), "") << target;
}

}  // namespace
}  // namespace tp
