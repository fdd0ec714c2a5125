// The tokens of an answer that an earlier job began, while they are repeated.
#pragma once

#include "runtime/api/record.h"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace tp {

class Replay {
 public:
  explicit Replay(const std::vector<RecordedToken>& tokens);

  // The recorded tokens of a prompt's continuations, for Request::generated; empty if there are none.
  std::vector<std::vector<TokenId>> generated(std::size_t prompt) const;

  // Gives the event the numbers of the earlier run. Returns whether the event repeats a recorded token: then
  // the client has it. Throws Error if it contains another token instead.
  bool adopt(std::size_t prompt, TokenEvent& event);

 private:
  // A continuation's tokens, and the number of tokens repeated so far.
  struct Track {
    std::vector<TokenEvent> events{};
    std::size_t repeated = 0;
  };

  std::map<std::pair<std::size_t, int>, Track> tracks_{};  // by prompt and sample
};

}  // namespace tp
