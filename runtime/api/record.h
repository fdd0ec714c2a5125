// The record of an answer, with which a later job continues it, and the marks of its tokens:
// runtime/gateway/README.md.
#pragma once

#include "tp/request.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct RecordedToken {
  std::size_t prompt = 0;  // index among the call's prompts
  TokenEvent event{};      // without text
};

struct Record {
  std::string id{};          // the answer's id, without the prefix of its API
  std::int64_t created = 0;  // seconds since 1970
  std::uint64_t seed = 0;    // for requests without a seed, below 2^53
  bool begun = false;        // the client has the beginning of the stream
  std::vector<RecordedToken> tokens{};
};

// The mark of a token: a JSON array on one line.
std::string mark_of(std::size_t prompt, const TokenEvent& event);

// A record as JSON. `marks`: the marks of all tokens, each followed by a comma. `record.tokens` must be
// empty.
std::string record_text(const Record& record, std::string_view marks);
// Throws RequestError if the text is not a record.
Record parse_record(std::string_view text);

// The comment that contains a mark, as it follows a piece of a marked stream.
inline constexpr std::string_view kMarkBegin = ": tp ";
std::string mark_comment(std::string_view mark);

// Headers between the gateway and the server.
namespace gateway_header {
inline constexpr std::string_view kSecret = "tp-gateway";
inline constexpr std::string_view kClient = "tp-client";  // address of the client
// The name of the client's key, if the gateway has checked the request; kNobody without a key.
inline constexpr std::string_view kUser = "tp-user";
inline constexpr std::string_view kNobody = "*";
inline constexpr std::string_view kRecordBytes = "tp-record-bytes";
inline constexpr std::string_view kMarks = "tp-marks";
inline constexpr std::string_view kLost = "tp-lost";
}  // namespace gateway_header

}  // namespace tp
