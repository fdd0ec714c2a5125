#include "runtime/gateway/marked_stream.h"

#include "tp/error.h"

#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Units = std::vector<std::pair<std::string, std::string>>;

const std::string kStream =
    ": tp begun\n\n"
    "data: {\"a\":1}\n\ndata: {\"a\":2}\n\n: tp [0,0,5,0,0,0]\n\n"
    ": ping\n\n: tp begun\n\n"
    ": tp [0,0,6,0,0,0]\n\n"
    "event: x\ndata: 1\n\n: tp end\n\n";
const Units kUnits = {{"", "begun"},
                      {"data: {\"a\":1}\n\ndata: {\"a\":2}\n\n", "[0,0,5,0,0,0]"},
                      {": ping\n\n", "begun"},
                      {"", "[0,0,6,0,0,0]"},
                      {"event: x\ndata: 1\n\n", "end"}};

TEST(MarkedStream, DividesAStreamInAnyPieces) {
  for (std::size_t size = 1; size <= kStream.size(); ++size) {
    MarkedStream stream(1000);
    Units units;
    for (std::size_t begin = 0; begin < kStream.size(); begin += size) {
      stream.add(std::string_view(kStream).substr(begin, size),
                 [&](std::string_view piece, std::string_view mark) {
                   units.emplace_back(piece, mark);
                   return true;
                 });
    }
    EXPECT_EQ(units, kUnits) << size;
  }
}

TEST(MarkedStream, GivesNoPieceBeforeItsMark) {
  const std::size_t before = kStream.find(": tp [0,0,5");
  MarkedStream stream(1000);
  Units units;
  const auto take = [&](std::string_view piece, std::string_view mark) {
    units.emplace_back(piece, mark);
    return true;
  };
  stream.add(std::string_view(kStream).substr(0, before + 15), take);
  EXPECT_EQ(units, Units(kUnits.begin(), kUnits.begin() + 1));
}

TEST(MarkedStream, RefusesAPieceThatDoesNotEnd) {
  MarkedStream stream(100);
  const auto take = [](std::string_view, std::string_view) { return true; };
  stream.add(std::string(100, 'x'), take);
  EXPECT_THROW(stream.add("x", take), Error);
}

}  // namespace
}  // namespace tp
