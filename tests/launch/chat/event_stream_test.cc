#include "launch/chat/event_stream.h"

#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Texts = std::vector<std::string>;

TEST(EventStream, FindsTheSameEventsInAnyPieces) {
  const std::string text =
      ": ping\n\ndata: one\n\nevent: delta\r\ndata:two\r\nid: 7\r\n\r\ndata: three\ndata:  lines\n\ndata:\n\n"
      "data: cut off";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    Texts found;
    EventStream events([&](const std::string& data) { found.push_back(data); });
    for (std::size_t begin = 0; begin < text.size(); begin += size) events.read(text.substr(begin, size));
    EXPECT_EQ(found, (Texts{"one", "two", "three\n lines", ""})) << "pieces of " << size;
  }
}

TEST(EventStream, RefusesAnEndlessEvent) {
  EventStream events([](const std::string&) { FAIL() << "an event"; });
  const std::string piece(1 << 20, 'x');
  EXPECT_THROW(
      {
        for (int i = 0; i < 20; ++i) events.read(piece);
      },
      RequestError);
}

}  // namespace
}  // namespace tp::test
